#include "yoke/profile/pipedream/graph_text.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"

namespace yoke::profile::pipedream {
namespace {

using base::Error;
using base::input_error;
using base::quote;
using base::Result;
using base::Where;

constexpr std::string_view kSeparator = " -- ";
constexpr std::string_view kStage = "stage_id=";
constexpr std::array<std::string_view, 4> kNumbers{"forward_compute_time", "backward_compute_time", "activation_size",
                                                   "parameter_size"};

/// Reads the file line by line; every error names the line it stands on.
class GraphParser {
 public:
  explicit GraphParser(const std::string& file) : file_(file) {}

  Result<LayerGraph> parse(std::string_view text) {
    for (std::string_view line : base::split(text, "\n")) {
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (base::trim(line).empty()) continue;
      YOKE_CHECK(line.starts_with('\t') ? read_edge(base::trim(line)) : read_layer(line));
    }
    std::vector<Edge> edges;
    for (const auto& edge : edges_) {
      line_ = edge.line;
      YOKE_TRY(const int from, index_of(edge.from));
      YOKE_TRY(const int to, index_of(edge.to));
      edges.push_back({from, to});
    }
    return LayerGraph::make(std::move(layers_), std::move(edges), {.file = file_});
  }

 private:
  struct NamedEdge {
    std::string from;
    std::string to;
    int line = 0;
  };

  Error fail(std::string message) const { return input_error(std::move(message), {.file = file_, .line = line_}); }

  base::Status read_edge(std::string_view line) {
    const auto at = line.find(kSeparator);
    if (at == std::string_view::npos) {
      return fail(fmt::format("found {}, expected an edge such as `node1 -- node2`", quote(line)));
    }
    edges_.push_back({std::string(base::trim(line.substr(0, at))),
                      std::string(base::trim(line.substr(at + kSeparator.size()))), line_});
    return {};
  }

  /// The layer text may itself contain the separator: the id ends at the first one, the numbers start after the last.
  base::Status read_layer(std::string_view line) {
    const auto malformed = [&] {
      return fail(
          fmt::format("found {}, expected `id -- layer -- forward_compute_time=.., backward_compute_time=.., "
                      "activation_size=.., parameter_size=..`",
                      quote(line)));
    };
    const auto id_end = line.find(kSeparator);
    if (id_end == std::string_view::npos) return malformed();
    Layer layer{.id = std::string(base::trim(line.substr(0, id_end)))};
    std::string_view rest = line.substr(id_end + kSeparator.size());

    auto last = rest.rfind(kSeparator);
    if (last == std::string_view::npos) return malformed();
    std::string_view numbers = rest.substr(last + kSeparator.size());
    rest = rest.substr(0, last);
    if (numbers.starts_with(kStage)) {
      YOKE_TRY(layer.stage, read_stage(numbers.substr(kStage.size())));
      last = rest.rfind(kSeparator);
      if (last == std::string_view::npos) return malformed();
      numbers = rest.substr(last + kSeparator.size());
      rest = rest.substr(0, last);
    }
    layer.description = std::string(rest);
    YOKE_CHECK(read_numbers(numbers, &layer));
    if (!indices_.emplace(layer.id, static_cast<int>(layers_.size())).second) {
      return fail(fmt::format("the layer {} is given twice, expected unique ids", quote(layer.id)));
    }
    layers_.push_back(std::move(layer));
    return {};
  }

  Result<std::optional<int>> read_stage(std::string_view text) const {
    const auto stage = base::parse_integer(text);
    if (!stage.ok() || *stage < 0 || *stage > std::numeric_limits<int>::max()) {
      return fail(fmt::format("found stage_id {}, expected a whole number >= 0", quote(text)));
    }
    return std::optional<int>(static_cast<int>(*stage));
  }

  base::Status read_numbers(std::string_view text, Layer* layer) const {
    const auto items = base::split(text, ", ");
    if (items.size() != kNumbers.size()) {
      return fail(
          fmt::format("found {} numbers in {}, expected 4: forward time, backward time, activation size and "
                      "parameter size",
                      items.size(), quote(text)));
    }
    std::array<std::vector<double>, kNumbers.size()> values;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto equals = items[i].find('=');
      if (equals == std::string_view::npos) {
        return fail(fmt::format("found {}, expected `{}=<number>`", quote(items[i]), kNumbers[i]));
      }
      YOKE_TRY(values[i], read_values(kNumbers[i], base::trim(items[i].substr(equals + 1))));
    }
    constexpr std::size_t kActivations = 2;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i != kActivations && values[i].size() != 1) {
        return fail(fmt::format("found a list as {}, expected one number", kNumbers[i]));
      }
    }
    layer->forward_ms = values[0].front();
    layer->backward_ms = values[1].front();
    layer->output_bytes = std::move(values[kActivations]);
    layer->parameter_bytes = values[3].front();
    return {};
  }

  /// `3.5` or `[1.5; 2.0]`.
  Result<std::vector<double>> read_values(std::string_view name, std::string_view text) const {
    std::vector<std::string_view> items{text};
    if (text.size() >= 2 && text.starts_with('[') && text.ends_with(']')) {
      const std::string_view inside = text.substr(1, text.size() - 2);
      if (base::trim(inside).empty()) return std::vector<double>{};
      items = base::split(inside, ";");
    }
    std::vector<double> values;
    for (const auto item : items) {
      const auto value = base::parse_number(item);
      if (!value.ok() || *value < 0) {
        return fail(fmt::format("found {}={}, expected a finite number >= 0", name, quote(text)));
      }
      values.push_back(*value);
    }
    return values;
  }

  Result<int> index_of(const std::string& id) const {
    if (const auto found = indices_.find(id); found != indices_.end()) return found->second;
    std::vector<std::string> ids;
    for (const auto& layer : layers_) ids.push_back(layer.id);
    return fail(
        fmt::format("the edge names the layer {}, which no line declares{}", quote(id), base::did_you_mean(id, ids)));
  }

  const std::string& file_;
  int line_ = 0;
  std::vector<Layer> layers_;
  std::unordered_map<std::string, int> indices_;
  std::vector<NamedEdge> edges_;
};

std::string number_text(double value) {
  const std::string short_text = value < 1e15 ? fmt::format("{:.3f}", value) : base::exact(value);
  const auto read_back = base::parse_number(short_text);
  return read_back.ok() && *read_back == value ? short_text : base::exact(value);
}

std::string activation_text(const std::vector<double>& outputs) {
  if (outputs.size() == 1) return number_text(outputs.front());
  std::string text = "[";
  for (std::size_t i = 0; i < outputs.size(); ++i) text += (i == 0 ? "" : "; ") + number_text(outputs[i]);
  return text + "]";
}

}  // namespace

Result<LayerGraph> parse_graph_text(std::string_view text, const std::string& file) {
  return GraphParser(file).parse(text);
}

Result<LayerGraph> load_graph_text(const std::string& path) {
  YOKE_TRY(const std::string text, base::read_file(path));
  return parse_graph_text(text, path);
}

std::string to_graph_text(const LayerGraph& graph) {
  std::string text;
  for (const auto& layer : graph.layers()) {
    text += fmt::format("{} -- {} -- {}={}, {}={}, {}={}, {}={}", layer.id, layer.description, kNumbers[0],
                        number_text(layer.forward_ms), kNumbers[1], number_text(layer.backward_ms), kNumbers[2],
                        activation_text(layer.output_bytes), kNumbers[3], number_text(layer.parameter_bytes));
    if (layer.stage) text += fmt::format("{}{}{}", kSeparator, kStage, *layer.stage);
    text += '\n';
  }
  for (const auto& edge : graph.edges()) {
    const auto id = [&](int layer) -> const std::string& { return graph.layers()[static_cast<std::size_t>(layer)].id; };
    text += fmt::format("\t{}{}{}\n", id(edge.from), kSeparator, id(edge.to));
  }
  return text;
}

}  // namespace yoke::profile::pipedream
