#include "yoke/engine/training_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace yoke::engine {
namespace {

using ::testing::ElementsAre;

TEST(TrainingProgress, TravelsAsNumbers) {
  TrainingProgress sent{.cursor = {.epoch = 3, .consumed = 40, .step = 17},
                        .updates = 16,
                        .total_samples = 1240,
                        .skipped_samples = 2,
                        .last_loss = 1.5,
                        .last_rate = 0.1};
  sent.loss_scale.emplace(LossScaleOptions{.start = 0.75});
  sent.loss_scale->judge(true);
  sent.note_batch(32, 4);
  sent.note_batch(64, 8);

  TrainingProgress got{.last_loss = 9};
  got.loss_scale.emplace(LossScaleOptions{});
  got.note_batch(8, 8);
  got.unpack(sent.pack());
  EXPECT_EQ(got.cursor, sent.cursor);
  EXPECT_EQ(got.updates, 16);
  EXPECT_EQ(got.total_samples, 1240);
  EXPECT_EQ(got.skipped_samples, 2);
  EXPECT_EQ(got.loss_scale->state(), sent.loss_scale->state());
  EXPECT_EQ(got.batches, sent.batches);
  EXPECT_EQ(got.last_loss, 9) << "of this rank's own last step";
}

TEST(TrainingProgress, RemembersChangesOfTheBatch) {
  TrainingProgress progress;
  progress.note_batch(32, 4);
  progress.cursor.step = 5;
  progress.note_batch(32, 4);
  progress.note_batch(32, 8);
  EXPECT_THAT(progress.batches,
              ElementsAre(BatchChange{.step = 0, .gbs = 32, .lbs = 4}, BatchChange{.step = 5, .gbs = 32, .lbs = 8}));
}

TEST(TrainingProgress, StepsLeftCountTheShortOnesAtTheEndsOfEpochs) {
  const data::Sampler sampler(10, 1);
  const data::StepShape shape{.workers = 2, .lbs = 2};
  EXPECT_EQ(steps_left(sampler, {}, shape, 2), 6);
  EXPECT_EQ(steps_left(sampler, {.epoch = 0, .consumed = 8, .step = 2}, shape, 2), 4);
  EXPECT_EQ(steps_left(sampler, {.epoch = 1, .consumed = 1}, shape, 2), 3) << "after steps of another shape";
  EXPECT_EQ(steps_left(sampler, {.epoch = 2}, shape, 2), 0);
}

}  // namespace
}  // namespace yoke::engine
