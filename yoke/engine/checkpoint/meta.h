// What a checkpoint says beside its tensors. Free of torch, so that files can be checked without it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "yoke/data/sampler.h"
#include "yoke/engine/loss_scale.h"

namespace yoke::engine {

/// One change of the batch, for the history.
struct BatchChange {
  std::int64_t step = 0;
  std::int64_t gbs = 0;
  std::int64_t lbs = 0;
  bool operator==(const BatchChange&) const = default;
};

struct CheckpointMeta {
  std::string model;  // its name; one of another model is refused by it
  data::Cursor cursor;
  std::uint64_t seed = 0;    // with the cursor all there is to the random streams
  std::int64_t updates = 0;  // optimizer steps so far
  double train_loss = 0;     // of the last step; what is not finite is read back as NaN
  std::vector<BatchChange> batches;
  std::optional<LossScaleState> loss_scale = {};  // of training with one
  bool operator==(const CheckpointMeta&) const = default;
};

}  // namespace yoke::engine
