// A network whose gradients leave for the sum the moment they exist: it never holds more than one. Several replicas
// look at the same weights.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "yoke/engine/gradient_sum.h"
#include "yoke/engine/parameters.h"
#include "yoke/models/model.h"

namespace yoke::engine {

/// One thread at a time.
class Replica {
 public:
  /// Blocks `first` to `last` - 1 of the architecture: those that `parameters` has. Both must outlive this.
  Replica(const models::Architecture& architecture, std::size_t first, std::size_t last, const Parameters& parameters,
          GradientSum& gradients, torch::Device device);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  models::Network& network() { return network_; }

  /// From `roots`, whose gradients are `with` (undefined: 1, for a loss): adds weight x gradient of every parameter.
  void backward(const std::vector<torch::Tensor>& roots, const std::vector<torch::Tensor>& with, double weight);

 private:
  struct Deliver;

  models::Network network_;
  GradientSum& gradients_;
  std::vector<torch::Tensor> parameters_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;  // parameters hold theirs weakly
  std::vector<char> delivered_;                                       // in this backward pass
  double weight_ = 1;
};

}  // namespace yoke::engine
