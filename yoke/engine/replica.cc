#include "yoke/engine/replica.h"

#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>

namespace yoke::engine {

/// Runs after a gradient was put into its parameter.
struct Replica::Deliver final : torch::autograd::FunctionPostHook {
  Deliver(Replica& of, std::size_t parameter) : replica(of), index(parameter) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& /*inputs*/) override {
    auto& slot = replica.parameters_[index].mutable_grad();
    const torch::Tensor gradient = std::move(slot);
    slot.reset();
    replica.gradients_.add(index, gradient, replica.weight_);
    replica.delivered_[index] = 1;
    return outputs;
  }
  Replica& replica;
  const std::size_t index;
};

Replica::Replica(const models::Architecture& architecture, std::size_t first, std::size_t last,
                 const Parameters& parameters, GradientSum& gradients, torch::Device device)
    : network_(architecture, {.first = first, .last = last}), gradients_(gradients), delivered_(parameters.count()) {
  for (std::size_t i = 0; !device.is_cpu() && i < network_.blocks(); ++i) network_.block(i).to(device);
  parameters.adopt(network_);
  for (const auto& parameter : network_.parameters()) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameter.tensor);
    accumulator->add_post_hook(std::make_unique<Deliver>(*this, parameters_.size()));
    accumulators_.push_back(std::move(accumulator));
    parameters_.push_back(parameter.tensor);
  }
}

void Replica::backward(const std::vector<torch::Tensor>& roots, const std::vector<torch::Tensor>& with, double weight) {
  weight_ = weight;
  std::ranges::fill(delivered_, 0);
  if (!roots.empty()) torch::autograd::backward(roots, with);
  // A parameter that the loss does not depend on has had no gradient: the sum must not wait for one.
  for (std::size_t i = 0; i < delivered_.size(); ++i) {
    if (delivered_[i] == 0) gradients_.add(i, {}, weight);
  }
}

}  // namespace yoke::engine
