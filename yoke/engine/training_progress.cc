#include "yoke/engine/training_progress.h"

#include <bit>

#include "yoke/engine/optimizer/lr.h"

namespace yoke::engine {
namespace {

constexpr std::size_t kScalars = 8;  // numbers in front of the batches

}  // namespace

std::vector<std::int64_t> TrainingProgress::pack() const {
  const auto scale = loss_scale ? loss_scale->state() : LossScaleState{};
  std::vector<std::int64_t> numbers{
      updates,       cursor.epoch,    cursor.consumed,  cursor.step,
      total_samples, skipped_samples, scale.good_steps, std::bit_cast<std::int64_t>(scale.factor)};
  for (const auto& batch : batches) numbers.insert(numbers.end(), {batch.step, batch.gbs, batch.lbs});
  return numbers;
}

void TrainingProgress::unpack(const std::vector<std::int64_t>& numbers) {
  updates = numbers[0];
  cursor = {.epoch = static_cast<std::uint32_t>(numbers[1]), .consumed = numbers[2], .step = numbers[3]};
  total_samples = numbers[4];
  skipped_samples = numbers[5];
  if (loss_scale) loss_scale->set({.factor = std::bit_cast<double>(numbers[7]), .good_steps = numbers[6]});
  batches.clear();
  for (std::size_t i = kScalars; i + 2 < numbers.size(); i += 3) {
    batches.push_back({.step = numbers[i], .gbs = numbers[i + 1], .lbs = numbers[i + 2]});
  }
}

void TrainingProgress::note_batch(std::int64_t gbs, std::int64_t lbs) {
  if (!batches.empty() && batches.back().gbs == gbs && batches.back().lbs == lbs) return;
  batches.push_back({.step = cursor.step, .gbs = gbs, .lbs = lbs});
}

std::int64_t steps_left(const data::Sampler& sampler, const data::Cursor& at, const data::StepShape& shape,
                        std::int64_t epochs) {
  const auto epoch = static_cast<std::int64_t>(at.epoch);
  if (epoch >= epochs) return 0;
  const std::int64_t gbs = shape.workers * shape.lbs;
  const std::int64_t left = sampler.size() - at.consumed;
  return (left + gbs - 1) / gbs + (epochs - epoch - 1) * sampler.steps_per_epoch(shape);
}

double learning_rate_at(const plan::Job& job, std::int64_t epoch_samples, const data::Cursor& at,
                        std::int64_t updates) {
  return learning_rate(job.lr, job.optimizer.lr,
                       {.step = updates,
                        .epoch = at.epoch + static_cast<double>(at.consumed) / static_cast<double>(epoch_samples),
                        .epochs = static_cast<double>(job.epochs)});
}

}  // namespace yoke::engine
