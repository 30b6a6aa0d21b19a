// Whole jobs, from the data set to the result, with ranks as threads.
#include "yoke/engine/rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/engine/ranks.h"
#include "tests/support/temp_folder.h"
#include "yoke/engine/checkpoint/checkpoint.h"
#include "yoke/engine/first_plan.h"

namespace yoke::engine::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

/// Remembers what it was told; asks to stop after a step if it was made so.
class Witness final : public Observer {
 public:
  explicit Witness(std::int64_t stop_after = -1) : stop_after_(stop_after) {}
  void on_plan(const plan::Plan& plan) override { plans.push_back(plan); }
  void on_step(const StepReport& report) override { steps.push_back(report); }
  void on_event(const Event& event) override { events.push_back(event); }
  bool stop_requested() override { return stop_after_ >= 0 && asked_++ >= stop_after_; }

  std::vector<plan::Plan> plans;
  std::vector<StepReport> steps;
  std::vector<Event> events;

 private:
  const std::int64_t stop_after_;
  std::int64_t asked_ = 0;
};

plan::Job small_job() {
  plan::Job job;
  job.model.name = "mlp";
  job.data = {.name = "synthetic", .limit = 96, .shape = {1, 6, 6}, .classes = 5};
  job.batch = {.global = 32, .local = {4}};
  job.optimizer = {.lr = 0.05, .momentum = 0.9};
  job.epochs = 3;
  job.seed = 3;
  return job;
}

struct Outcome {
  base::Result<RankResult> result = base::peer_error("did not run");
  Witness witness;
};

/// Trains with a rank for each device; the outcomes by rank.
std::vector<Outcome> run(const RankOptions& options, std::int64_t stop_after = -1) {
  const auto store = comm::make_memory_store();
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < options.devices.size(); ++i) outcomes.push_back({.witness = Witness(stop_after)});
  in_threads(static_cast<int>(options.devices.size()), [&](int rank) {
    auto& outcome = outcomes[static_cast<std::size_t>(rank)];
    outcome.result = train_rank(options, join_ranks(*store, "g", rank, static_cast<int>(options.devices.size())),
                                outcome.witness, test_clock());
  });
  return outcomes;
}

std::vector<DeviceSpec> some_devices(std::size_t count) {
  std::vector<DeviceSpec> all;
  for (const auto& id : devices(count)) all.push_back({.id = id});
  return all;
}

TEST(Rank, TrainsFromTheJobAlone) {
  const auto outcomes = run({.job = small_job(), .devices = some_devices(2)});
  const auto& first = outcomes[0];
  ASSERT_TRUE(first.result.ok()) << first.result.error().to_string();
  EXPECT_EQ(first.result->steps, 9);
  EXPECT_EQ(first.result->samples, 3 * 96);
  EXPECT_EQ(first.result->epochs, 3);
  EXPECT_GT(first.result->predicted_step_seconds, 0);
  EXPECT_GT(first.result->measured_step_seconds, 0);
  EXPECT_EQ(first.result->weights_sha256.size(), 64U);
  EXPECT_TRUE(first.result->test_accuracy.has_value());
  ASSERT_EQ(first.witness.plans.size(), 1U);
  EXPECT_EQ(first.witness.plans[0].workers(), 8);
  EXPECT_EQ(first.witness.steps.size(), 9U);
  EXPECT_LT(first.witness.steps.back().loss, first.witness.steps.front().loss);
  ASSERT_TRUE(outcomes[1].result.ok());
  EXPECT_TRUE(outcomes[1].witness.steps.empty()) << "rank 0 tells";
}

TEST(Rank, ASlowDeviceGetsFewerWorkers) {
  auto job = small_job();
  job.data.shape = {1, 60, 60};  // long enough to be measured
  job.batch = {.global = 96, .local = {8}};
  auto unlike = some_devices(2);
  unlike[1].type = "slow";
  unlike[1].speed = 0.2;
  const auto outcomes = run({.job = job, .devices = unlike});
  ASSERT_TRUE(outcomes[0].result.ok()) << outcomes[0].result.error().to_string();
  const auto& lanes = outcomes[0].witness.plans[0].data_lanes;
  ASSERT_EQ(lanes.size(), 2U);
  EXPECT_GT(lanes[0].workers(), lanes[1].workers());
}

TEST(Rank, GoesOnWithTheSameBitsOnAnotherClusterShape) {
  const yoke::testing::TempFolder folder;
  auto job = small_job();
  job.model.name = "small_cnn";  // with buffers
  job.optimizer = {.name = plan::OptimizerName::kAdamW, .lr = 0.002, .weight_decay = 1e-4};
  job.reproducible = true;
  const auto straight = run({.job = job, .devices = some_devices(1)});
  ASSERT_TRUE(straight[0].result.ok()) << straight[0].result.error().to_string();

  RankOptions options{.job = job, .devices = some_devices(2), .checkpoints = folder.path() + "/checkpoints"};
  const auto stopped = run(options, 3);
  ASSERT_TRUE(stopped[0].result.ok()) << stopped[0].result.error().to_string();
  EXPECT_TRUE(stopped[0].result->interrupted);
  EXPECT_EQ(stopped[0].result->steps, 4);

  options.devices = some_devices(3);
  options.resume = true;
  const auto resumed = run(options);
  ASSERT_TRUE(resumed[0].result.ok()) << resumed[0].result.error().to_string();
  EXPECT_FALSE(resumed[0].result->interrupted);
  EXPECT_EQ(resumed[0].witness.steps.front().step, 5);
  EXPECT_EQ(resumed[0].result->samples, straight[0].result->samples);
  EXPECT_EQ(resumed[0].result->weights_sha256, straight[0].result->weights_sha256);
}

TEST(Rank, ALocalBatchThatDoesNotFitIsMadeSmaller) {
  auto job = small_job();
  job.model.name = "small_cnn";
  job.data.shape = {1, 28, 28};
  job.batch = {.global = 64, .local = {64}};
  job.epochs = 1;
  RankOptions options{.job = job, .devices = some_devices(1)};
  // Weights, gradients and state of the model are about 2.5 MB, activations of a sample about 0.1 MB.
  options.devices[0].memory_bytes = 5'000'000;
  auto outcomes = run(options);
  ASSERT_TRUE(outcomes[0].result.ok()) << outcomes[0].result.error().to_string();
  EXPECT_EQ(outcomes[0].witness.plans[0].gbs, 64);
  EXPECT_LT(outcomes[0].witness.plans[0].lbs, 64);
  EXPECT_THAT(outcomes[0].witness.events,
              Contains(Field(&Event::detail, HasSubstr("a local batch of 64 does not fit"))));

  // A plan that was given is held to the memory too.
  options.plan = plan_of({{1, 0}}, 64);
  outcomes = run(options);
  ASSERT_TRUE(outcomes[0].result.ok()) << outcomes[0].result.error().to_string();
  EXPECT_LT(outcomes[0].witness.plans[0].lbs, 64);

  // Half of 50 does not halve again: what divides the global batch does.
  options.plan.reset();
  options.job.batch = {.global = 50, .local = {50}};
  options.devices[0].memory_bytes = 3'500'000;
  outcomes = run(options);
  ASSERT_TRUE(outcomes[0].result.ok()) << outcomes[0].result.error().to_string();
  EXPECT_EQ(outcomes[0].witness.plans[0].gbs, 50);
  EXPECT_LT(outcomes[0].witness.plans[0].lbs, 25);

  options.devices[0].memory_bytes = 100'000;
  outcomes = run(options);
  ASSERT_FALSE(outcomes[0].result.ok());
  EXPECT_EQ(outcomes[0].result.error().kind, base::ErrorKind::kInfeasible);
  EXPECT_THAT(outcomes[0].result.error().message, HasSubstr("does not fit"));
}

TEST(Rank, TheJobSaysHowMuchIsDroppedOut) {
  auto job = small_job();
  job.epochs = 1;
  const auto first_loss = [&] { return run({.job = job, .devices = some_devices(1)})[0].witness.steps.at(0).loss; };
  const double own = first_loss();
  job.model.dropout = 0;  // what the model has anyway
  EXPECT_NEAR(first_loss(), own, 1e-9);
  job.model.dropout = 0.5;
  EXPECT_GT(std::abs(first_loss() - own), 1e-4);
}

TEST(Rank, RefusesWhatCannotBeTrained) {
  auto job = small_job();
  job.model.classes = 3;
  EXPECT_THAT(run({.job = job, .devices = some_devices(1)})[0].result.error().message, HasSubstr("has 5"));
  job = small_job();
  job.precision = plan::Precision::kFp16;
  EXPECT_THAT(run({.job = job, .devices = some_devices(1)})[0].result.error().message, HasSubstr("CUDA"));
  job = small_job();
  job.model.weights = "/nowhere/weights.safetensors";
  EXPECT_EQ(run({.job = job, .devices = some_devices(1)})[0].result.error().kind, base::ErrorKind::kInput);
}

TEST(Rank, AFaultOfOneRankEndsAll) {
  auto job = small_job();
  job.optimizer.lr = 1e30;
  for (const auto& outcome : run({.job = job, .devices = some_devices(3)})) {
    ASSERT_FALSE(outcome.result.ok());
    EXPECT_THAT(outcome.result.error().message, HasSubstr("not finite"));
  }
}

TEST(Rank, WeightsThatAreNotFiniteNeverReplaceACheckpoint) {
  auto pipeline = plan_of({}, 4);
  pipeline.pipeline_lanes = {
      {.schedule = "1f1b-flush",
       .workers = 8,
       .stages = {{.layers = {"fc1"}, .devices = {device(0)}}, {.layers = {"fc2", "fc3"}, .devices = {device(1)}}}}};
  pipeline.gbs = 32;
  for (const auto& plan : {plan_of({{2, 1}, {2, 1}}, 4), pipeline}) {
    SCOPED_TRACE(plan.pipeline_lanes.empty() ? "data lanes" : "a pipeline");
    const yoke::testing::TempFolder folder;
    RankOptions options{.job = small_job(), .devices = some_devices(2), .checkpoints = folder.path() + "/checkpoints"};
    options.plan = plan;
    options.job.checkpoint.every_steps = 1;
    options.job.checkpoint.keep = 1;
    const auto good = run(options, 2);
    ASSERT_TRUE(good[0].result.ok()) << good[0].result.error().to_string();

    options.resume = true;
    options.job.optimizer.lr = 1e60;  // the loss of the next step is finite still
    for (const auto& outcome : run(options)) {
      ASSERT_FALSE(outcome.result.ok());
      EXPECT_EQ(outcome.result.error().kind, base::ErrorKind::kInput);
      EXPECT_THAT(outcome.result.error().message, HasSubstr("the weights are not finite after step 4 (lr 1e+60)"));
    }
    std::vector<std::string> warnings;
    const auto newest = load_newest(options.checkpoints, warnings);
    ASSERT_TRUE(newest.ok() && newest->has_value());
    EXPECT_TRUE(warnings.empty());
    EXPECT_EQ((*newest)->meta.cursor.step, 3);
    EXPECT_EQ(weights_sha256((*newest)->weights), good[0].result->weights_sha256);
    for (const auto& [name, weight] : (*newest)->weights) EXPECT_TRUE(weight.isfinite().all().item<bool>()) << name;
  }
}

TEST(FirstPlan, TriesSizesThatDivideTheBatch) {
  EXPECT_THAT(local_batches_to_try({.global = 64, .local = {8, 16}}, 2), ElementsAre(8, 16));
  // At most eight, the largest with a worker for each device, every one at least a quarter smaller than the next.
  EXPECT_THAT(local_batches_to_try({.global = 192}, 2), ElementsAre(8, 12, 16, 24, 32, 48, 64, 96));
  EXPECT_THAT(local_batches_to_try({.global = 7}, 2), ElementsAre(1));
  EXPECT_THAT(local_batches_to_try({.global = 2}, 4), ElementsAre(1));
}

}  // namespace
}  // namespace yoke::engine::testing
