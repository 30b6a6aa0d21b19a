#include "yoke/profile/layer_graph.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <unordered_map>
#include <utility>

#include "yoke/base/text.h"

namespace yoke::profile {
namespace {

using base::input_error;
using base::Result;
using base::Status;
using base::Where;

constexpr int kUnset = -1;

bool is_size(double value) {
  return value >= 0 && std::isfinite(value);
}

Status validate(const Layer& layer, const Where& where) {
  Where at = where;
  at.field = fmt::format("layer {}", base::quote(layer.id));
  const auto fail = [&](std::string_view what, double found) -> Status {
    return input_error(fmt::format("found {} {}, expected a finite number >= 0", what, found), at);
  };
  if (layer.id.empty()) return input_error("found a layer without an id", at);
  const auto one_line = [](std::string_view text) {
    return text.find_first_of("\r\n") == std::string_view::npos && base::valid_utf8_prefix(text) == text.size();
  };
  // What layer files can hold: ` -- ` separates the parts of a line in PipeDream's.
  const bool separable = layer.id.find(" -- ") == std::string::npos && !layer.id.ends_with(" --");
  if (!one_line(layer.id) || !separable || base::trim(layer.id) != layer.id) {
    return input_error(
        "found a layer id with ` -- `, a line break, blanks around it or bytes that are not UTF-8, expected a plain "
        "name",
        at);
  }
  if (!one_line(layer.description)) return input_error("found a description that is not one line of UTF-8", at);
  if (!is_size(layer.forward_ms)) return fail("forward time", layer.forward_ms);
  if (!is_size(layer.backward_ms)) return fail("backward time", layer.backward_ms);
  if (!is_size(layer.parameter_bytes)) return fail("parameter size", layer.parameter_bytes);
  if (!is_size(layer.update_ms)) return fail("update time", layer.update_ms);
  for (const double bytes : layer.output_bytes) {
    if (!is_size(bytes)) return fail("activation size", bytes);
  }
  return {};
}

/// One cycle among the layers that could not be ordered, as `a -> b -> a`. Every such layer has an unordered
/// predecessor, so walking backwards must come round.
std::string describe_cycle(const std::vector<Layer>& layers, const std::vector<std::vector<int>>& predecessors,
                           const std::vector<bool>& ordered) {
  const auto index = [](int layer) { return static_cast<std::size_t>(layer); };
  int at = 0;
  while (ordered[index(at)]) ++at;
  std::vector<int> seen_at(layers.size(), kUnset);
  std::vector<int> walk;
  while (seen_at[index(at)] == kUnset) {
    seen_at[index(at)] = static_cast<int>(walk.size());
    walk.push_back(at);
    for (const int before : predecessors[index(at)]) {
      if (!ordered[index(before)]) {
        at = before;
        break;
      }
    }
  }
  std::string text = layers[index(at)].id;
  for (std::size_t i = walk.size(); i-- > index(seen_at[index(at)]);) text += " -> " + layers[index(walk[i])].id;
  return base::quote(text, 200);
}

}  // namespace

double Layer::activation_bytes() const {
  return std::accumulate(output_bytes.begin(), output_bytes.end(), 0.0);
}

Result<LayerGraph> LayerGraph::make(std::vector<Layer> layers, std::vector<Edge> edges, const Where& where) {
  if (layers.empty()) return input_error("found no layer, expected at least one", where);
  std::unordered_map<std::string_view, int> ids;
  for (const auto& layer : layers) {
    YOKE_CHECK(validate(layer, where));
    if (!ids.emplace(layer.id, 0).second) {
      return input_error(fmt::format("the layer {} is given twice, expected unique ids", base::quote(layer.id)), where);
    }
  }
  LayerGraph graph;
  const auto count = static_cast<int>(layers.size());
  graph.successors_.resize(layers.size());
  graph.predecessors_.resize(layers.size());
  std::vector<int> waiting(layers.size(), 0);
  for (const auto& edge : edges) {
    if (edge.from < 0 || edge.from >= count || edge.to < 0 || edge.to >= count) {
      return input_error(fmt::format("found an edge {} -> {}, expected layers 0 to {}", edge.from, edge.to, count - 1),
                         where);
    }
    graph.successors_[static_cast<std::size_t>(edge.from)].push_back(edge.to);
    graph.predecessors_[static_cast<std::size_t>(edge.to)].push_back(edge.from);
    ++waiting[static_cast<std::size_t>(edge.to)];
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> free;
  for (int layer = 0; layer < count; ++layer) {
    if (waiting[static_cast<std::size_t>(layer)] == 0) free.push(layer);
  }
  std::vector<bool> ordered(layers.size(), false);
  while (!free.empty()) {
    const int layer = free.top();
    free.pop();
    ordered[static_cast<std::size_t>(layer)] = true;
    graph.order_.push_back(layer);
    for (const int after : graph.successors_[static_cast<std::size_t>(layer)]) {
      if (--waiting[static_cast<std::size_t>(after)] == 0) free.push(after);
    }
  }
  if (graph.order_.size() != layers.size()) {
    base::Where at = where;
    at.field = "edges";
    return input_error(fmt::format("found the cycle {}, expected a graph without cycles",
                                   describe_cycle(layers, graph.predecessors_, ordered)),
                       at);
  }
  graph.layers_ = std::move(layers);
  graph.edges_ = std::move(edges);
  return graph;
}

Result<LayerGraph> LayerGraph::with_stages(const std::vector<std::optional<int>>& stages) const {
  if (stages.size() != layers_.size()) {
    return input_error(
        fmt::format("found {} stages, expected one for each of {} layers", stages.size(), layers_.size()));
  }
  LayerGraph graph = *this;
  for (std::size_t i = 0; i < stages.size(); ++i) graph.layers_[i].stage = stages[i];
  return graph;
}

LayerGraph LayerGraph::with_source(Source source) const {
  LayerGraph graph = *this;
  graph.source_ = source;
  return graph;
}

LayerGraph LayerGraph::with_lbs(std::optional<int> lbs) const {
  LayerGraph graph = *this;
  graph.lbs_ = lbs;
  return graph;
}

LayerGraph LayerGraph::with_confidence(const std::optional<Confidence>& confidence) const {
  LayerGraph graph = *this;
  graph.confidence_ = confidence;
  return graph;
}

}  // namespace yoke::profile
