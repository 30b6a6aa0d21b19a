// How far training is: all of its state that is not a tensor. It does not depend on the plan or the group; ranks send
// it to each other as numbers, and checkpoints hold it. A plain value: the trainer owns one, in its thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "yoke/data/sampler.h"
#include "yoke/engine/checkpoint/meta.h"
#include "yoke/engine/loss_scale.h"
#include "yoke/plan/job.h"

namespace yoke::engine {

struct TrainingProgress {
  data::Cursor cursor;       // of the next step
  std::int64_t updates = 0;  // optimizer steps so far
  std::int64_t total_samples = 0;
  std::int64_t skipped_samples = 0;
  double last_loss = 0;  // of the last step
  double last_rate = 0;
  std::optional<LossScale> loss_scale;  // of training with one
  std::vector<BatchChange> batches;     // which batch since when

  /// What ranks must have alike (all but the last loss and rate, which are for people), and back.
  std::vector<std::int64_t> pack() const;
  void unpack(const std::vector<std::int64_t>& numbers);

  /// A step of this batch comes next; remembered where it is another than before.
  void note_batch(std::int64_t gbs, std::int64_t lbs);
};

/// From a cursor to the end of the last epoch, as long as steps keep their shape.
std::int64_t steps_left(const data::Sampler& sampler, const data::Cursor& at, const data::StepShape& shape,
                        std::int64_t epochs);

/// The learning rate of a step at a cursor, after `updates` updates; an epoch has `epoch_samples` samples.
double learning_rate_at(const plan::Job& job, std::int64_t epoch_samples, const data::Cursor& at, std::int64_t updates);

}  // namespace yoke::engine
