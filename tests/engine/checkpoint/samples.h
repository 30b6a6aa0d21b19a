// Checkpoints whose content follows from their step, so that a mix of two is found out.
#pragma once

#include <torch/torch.h>

#include <cstring>
#include <string>

#include "yoke/engine/checkpoint/checkpoint.h"

namespace yoke::engine::testing {

/// Bytes 0, 1, 2 ... from `first`, without running a kernel of the library: those may start threads, and a process with
/// threads is not fit to be forked.
inline torch::Tensor counted(torch::IntArrayRef shape, torch::ScalarType type, std::int64_t first) {
  torch::Tensor tensor = torch::empty(shape, torch::dtype(type));
  auto* bytes = static_cast<unsigned char*>(tensor.data_ptr());
  for (std::size_t i = 0; i < tensor.nbytes(); ++i) {
    // Of a bool only two values are defined.
    bytes[i] = static_cast<unsigned char>((first + static_cast<std::int64_t>(i)) % (type == torch::kBool ? 2 : 251));
  }
  return tensor;
}

inline Checkpoint sample(std::int64_t step, std::int64_t elements = 3000) {
  Checkpoint checkpoint;
  checkpoint.meta = {.model = "lenet",
                     .cursor = {.epoch = 2, .consumed = step * 32, .step = step},
                     .seed = 0xfedcba9876543210,
                     .updates = step,
                     .train_loss = 1.0 / static_cast<double>(step + 1),
                     .batches = {{.step = 0, .gbs = 32, .lbs = 8}, {.step = step, .gbs = 64, .lbs = 16}}};
  checkpoint.weights = {{"stem.weight", counted({elements}, torch::kFloat32, step)},
                        {"stem.bias", counted({7, 3}, torch::kFloat32, step + 1)},
                        {"norm.batches", counted({}, torch::kInt64, step + 2)}};
  checkpoint.optimizer = {{"momentum.stem.weight", counted({elements}, torch::kFloat32, step + 3)},
                          {"momentum.stem.bias", counted({7, 3}, torch::kFloat32, step + 4)}};
  return checkpoint;
}

/// To the byte, NaNs included.
inline bool same(const NamedTensors& a, const NamedTensors& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const torch::Tensor& x = a[i].second;
    const torch::Tensor& y = b[i].second;
    if (a[i].first != b[i].first || x.scalar_type() != y.scalar_type() || x.sizes() != y.sizes()) return false;
    if (x.numel() > 0 && std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) != 0) return false;
  }
  return true;
}

inline bool same(const Checkpoint& a, const Checkpoint& b) {
  return a.meta == b.meta && same(a.weights, b.weights) && same(a.optimizer, b.optimizer);
}

}  // namespace yoke::engine::testing
