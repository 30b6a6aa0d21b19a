#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "yoke/models/zoo/zoo.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::models::zoo {
namespace {

using Clock = std::chrono::steady_clock;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr double kBytes = sizeof(float);

/// One layer as it is replayed.
struct Replayed {
  Clock::duration forward{};
  Clock::duration backward{};
  std::vector<std::int64_t> outputs;  // elements of each
  std::vector<std::string> takes;     // tensors of the flow that it uses
  std::vector<std::string> drops;     // of them, those that nobody needs after it
  std::vector<std::string> gives;     // names of its outputs
  std::int64_t parameters = 1;        // elements
};

Clock::duration milliseconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(count));
}

/// Outputs of the layer's sizes that depend on all inputs; and back. Each pass takes as long as was profiled, from its
/// beginning: making the tensors counts as part of it.
struct Wait : torch::autograd::Function<Wait> {
  static variable_list forward(AutogradContext* context, at::TensorList inputs, std::int64_t replayed) {
    const auto begin = Clock::now();
    const auto& layer = *reinterpret_cast<const Replayed*>(replayed);
    context->saved_data["layer"] = replayed;
    std::vector<std::int64_t> sizes;
    for (const auto& input : inputs) sizes.push_back(input.numel());
    context->saved_data["sizes"] = sizes;
    variable_list outputs;
    for (const auto elements : layer.outputs) outputs.push_back(torch::zeros({elements}));
    std::this_thread::sleep_until(begin + layer.forward);
    return outputs;
  }

  static variable_list backward(AutogradContext* context, const variable_list&) {
    const auto begin = Clock::now();
    const auto& layer = *reinterpret_cast<const Replayed*>(context->saved_data["layer"].toInt());
    variable_list gradients;
    for (const auto elements : context->saved_data["sizes"].toIntVector())
      gradients.push_back(torch::zeros({elements}));
    gradients.emplace_back();  // of what is no tensor
    std::this_thread::sleep_until(begin + layer.backward);
    return gradients;
  }
};

class ReplayBlock final : public Block {
 public:
  explicit ReplayBlock(std::shared_ptr<const Replayed> layer)
      : layer_(std::move(layer)), weight_(register_parameter("weight", torch::zeros({layer_->parameters}))) {}

  void forward(Flow& flow, const Pass& /*pass*/) override {
    std::vector<torch::Tensor> inputs{weight_};
    for (const auto& name : layer_->takes) inputs.push_back(flow.at(name).flatten().to(torch::kFloat));
    const auto outputs = Wait::apply(at::TensorList(inputs), reinterpret_cast<std::int64_t>(layer_.get()));
    for (const auto& name : layer_->drops) flow.take(name);
    for (std::size_t i = 0; i < outputs.size(); ++i) flow.set(layer_->gives[i], outputs[i]);
  }

 private:
  const std::shared_ptr<const Replayed> layer_;
  torch::Tensor weight_;
};

std::string output_name(const profile::Layer& layer, std::size_t output) {
  return layer.output_bytes.size() == 1 ? layer.id : fmt::format("{}.{}", layer.id, output);
}

std::int64_t elements_of(double bytes, double scale) {
  return std::max<std::int64_t>(1, std::llround(bytes * scale / kBytes));
}

/// Something to begin the backward pass with: there is nothing to learn.
Score end_of_flow(const Flow& flow, const LossOptions& /*options*/, bool count_correct) {
  torch::Tensor sum = torch::zeros({});
  for (const auto& [name, tensor] : flow.tensors()) {
    if (name != "x" && name != "targets") sum = sum + tensor.flatten()[0];
  }
  const std::int64_t samples = flow.contains("targets") ? flow.at("targets").size(0) : 1;
  return {.loss = sum, .samples = samples, .correct = count_correct ? 0 : -1};
}

base::Result<Architecture> make(const ModelOptions& options) {
  if (options.path.empty()) {
    return base::input_error(
        "found no path, expected a layer profile: layers.json, its folder, or PipeDream's graph.txt",
        {.field = "path"});
  }
  if (!(options.time_scale >= 0) || !(options.size_scale >= 0) || !std::isfinite(options.time_scale) ||
      !std::isfinite(options.size_scale)) {
    return base::input_error(
        fmt::format("found scales {} and {}, expected numbers from 0 on", options.time_scale, options.size_scale),
        {.field = "time_scale"});
  }
  YOKE_TRY(const profile::LayerGraph graph, profile::load_layer_graph(options.path));
  const auto& order = graph.topological_order();
  std::map<int, int> last_user;  // of each layer's output, by place in the order
  std::map<int, int> place;
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int>(i);
  for (const int layer : order) {
    for (const int user : graph.successors(layer)) last_user[layer] = std::max(last_user[layer], place[user]);
  }
  Architecture architecture{.name = "replay", .loss = end_of_flow};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& layer = graph.layers()[static_cast<std::size_t>(order[i])];
    auto replayed = std::make_shared<Replayed>();
    replayed->forward = milliseconds(layer.forward_ms * options.time_scale);
    replayed->backward = milliseconds(layer.backward_ms * options.time_scale);
    replayed->parameters = elements_of(layer.parameter_bytes, options.size_scale);
    for (std::size_t k = 0; k < layer.output_bytes.size(); ++k) {
      replayed->outputs.push_back(elements_of(layer.output_bytes[k], options.size_scale));
      replayed->gives.push_back(output_name(layer, k));
    }
    std::vector<int> sources = graph.predecessors(order[i]);
    std::ranges::sort(sources);
    // Not std::ranges::unique, which clang 14 cannot compile.
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    for (const int source : sources) {
      const auto& from = graph.layers()[static_cast<std::size_t>(source)];
      for (std::size_t k = 0; k < from.output_bytes.size(); ++k) {
        replayed->takes.push_back(output_name(from, k));
        if (last_user[source] == static_cast<int>(i)) replayed->drops.push_back(output_name(from, k));
      }
    }
    if (i == 0) replayed->drops.push_back("x");  // the samples themselves are not used
    const std::shared_ptr<const Replayed> fixed = std::move(replayed);
    architecture.blocks.push_back(
        {.name = layer.id, .prefix = layer.id, .make = [fixed] { return std::make_shared<ReplayBlock>(fixed); }});
  }
  return architecture;
}

}  // namespace

ModelInfo replay() {
  return {.name = "replay", .summary = "waits the times and moves the bytes of a layer profile", .make = make};
}

}  // namespace yoke::models::zoo
