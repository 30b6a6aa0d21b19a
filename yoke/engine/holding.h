// The part of the model that a rank holds: a range of blocks with their weights, gradients, optimizer state and
// buffers. A rank of a data lane holds all of it, a rank of a pipeline its stage. The state of a block can be taken out
// and put in by itself, whatever range it is part of: that is how state moves when the plan changes.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/engine/checkpoint/checkpoint.h"
#include "yoke/engine/gradient_sum.h"
#include "yoke/engine/optimizer/optimizer.h"
#include "yoke/engine/parameters.h"
#include "yoke/models/model.h"
#include "yoke/plan/job.h"
#include "yoke/tensor/device.h"

namespace yoke::engine {

/// Blocks `first` to `last` - 1; where another segment begins inside (Parameters::make).
struct BlockRange {
  std::size_t first = 0;
  std::size_t last = 0;
  std::vector<std::size_t> cuts = {};

  bool contains(std::size_t block) const { return block >= first && block < last; }
  bool operator==(const BlockRange&) const = default;
};

/// Bytes that a device holds once, whatever runs on it.
struct StateBytes {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t buffers = 0;

  std::int64_t total() const { return weights + gradients + optimizer + buffers; }
};

/// One thread owns it.
class Holding {
 public:
  /// Fresh weights from the job's seed. `device` must outlive this.
  static base::Result<std::unique_ptr<Holding>> make(const models::Architecture& architecture, const plan::Job& job,
                                                     const BlockRange& range, tensor::Device& device);

  const BlockRange& range() const { return range_; }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }
  GradientSum& gradients() { return *gradients_; }
  Optimizer& optimizer() { return *optimizer_; }

  /// By name, sharing storage; `block`: of that one only. The order does not depend on the range.
  NamedTensors weights() const { return weights_of(range_.first, range_.last); }
  NamedTensors weights(std::size_t block) const { return weights_of(block, block + 1); }
  /// `<state>.<parameter>`, flat.
  NamedTensors state() const { return state_of(range_.first, range_.last); }
  NamedTensors state(std::size_t block) const { return state_of(block, block + 1); }

  /// All of a block's state in one piece of bytes (u8, on the CPU), and back.
  torch::Tensor pack(std::size_t block) const;
  void unpack(std::size_t block, const torch::Tensor& bytes);
  std::int64_t packed_bytes(std::size_t block) const;
  /// Tells a block's weights apart; not meant against malice. Never 0.
  std::int64_t fingerprint(std::size_t block) const;

  StateBytes bytes() const;

 private:
  Holding() = default;
  NamedTensors weights_of(std::size_t first, std::size_t last) const;
  NamedTensors state_of(std::size_t first, std::size_t last) const;

  BlockRange range_;
  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<GradientSum> gradients_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace yoke::engine
