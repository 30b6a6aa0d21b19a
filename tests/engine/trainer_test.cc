// The idea everything follows from: where workers run does not change what they compute.
#include "yoke/engine/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/pictures.h"
#include "tests/engine/ranks.h"
#include "tests/support/temp_folder.h"
#include "yoke/engine/optimizer/lr.h"
#include "yoke/tensor/compat.h"
#include "yoke/tensor/device.h"

namespace yoke::engine::testing {
namespace {

using ::testing::HasSubstr;

const std::vector<Shape> kShapesOfEight{{{1, 7}},         {{8, 0}},         {{4, 1}},
                                        {{2, 1}, {1, 3}}, {{1, 4}, {3, 0}}, {{1, 0}, {2, 1}, {1, 1}, {1, 0}}};

TEST(Trainer, AnyShapeComputesTheSameUpdate) {
  const TestJob what;
  const auto one = train(what, kShapesOfEight[0], 4, 7);
  ASSERT_EQ(one.losses.size(), 7U);
  EXPECT_LT(one.losses.back(), one.losses.front());
  for (const auto& shape : kShapesOfEight) {
    for (const auto sync : {plan::Sync::kOverlap, plan::Sync::kSequential}) {
      const auto other = train(what, shape, 4, 7, sync);
      EXPECT_LT(difference(one.weights, other.weights), 1e-4);
      for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(one.losses[i], other.losses[i], 1e-5);
    }
  }
}

TEST(Trainer, ReproducibleMeansTheSameBits) {
  TestJob what;
  what.job.reproducible = true;
  what.model = "small_cnn";
  what.input = {1, 28, 28};
  what.dropout = 0.4;
  const auto one = train(what, kShapesOfEight[0], 4, 4);
  ASSERT_EQ(one.losses.size(), 4U);
  for (const auto& shape : kShapesOfEight) {
    EXPECT_TRUE(same_bits(one.weights, train(what, shape, 4, 4).weights));
  }
  for (const char* backend : {"shm", "gloo"}) {
    EXPECT_TRUE(same_bits(one.weights, train(what, {{2, 1}, {1, 3}}, 4, 4, plan::Sync::kOverlap, backend).weights))
        << backend;
  }
  what.job.reproducible = false;
  EXPECT_LT(difference(one.weights, train(what, {{2, 1}, {1, 3}}, 4, 4).weights), 1e-3);
}

/// Made-up pictures in two classes; those of one step of four workers, four samples each.
void write_pictures(const yoke::testing::TempFolder& folder) {
  for (std::uint64_t i = 0; i < 16; ++i) {
    const auto name = std::string(i % 2 == 0 ? "even" : "odd") + "/" + std::to_string(i) + ".png";
    const auto picture = yoke::testing::to_png(yoke::testing::make_picture(40, 36, 3, i));
    folder.write("train/" + name, picture);
    if (i < 2) folder.write("val/" + name, picture);
  }
}

TEST(Trainer, AugmentedImagesAreTheSameWhereverTheirWorkerRuns) {
  const yoke::testing::TempFolder folder;
  write_pictures(folder);
  TestJob what;
  what.job.reproducible = true;
  what.model = "small_cnn";
  what.images = folder.path();
  what.input = {3, 32, 32};
  what.classes = 2;
  what.samples = 16;
  const auto one = train(what, {{1, 3}}, 4, 3);
  ASSERT_EQ(one.losses.size(), 3U);
  for (const Shape& shape : {Shape{{2, 0}, {1, 1}}, Shape{{1, 0}, {3, 0}}}) {
    EXPECT_TRUE(same_bits(one.weights, train(what, shape, 4, 3).weights));
  }
}

struct PlainCase {
  std::string name;
  plan::Precision precision = plan::Precision::kFp32;
  int workers = 1;
  double dropout = 0;
  bool images = false;
};
std::ostream& operator<<(std::ostream& out, const PlainCase& one) {
  return out << one.name;
}
class PlainTorch : public ::testing::TestWithParam<PlainCase> {};

/// A loop as anybody would write it: torch's optimizer, torch's autocast, worker after worker, each with the draws that
/// its name gives it.
TEST_P(PlainTorch, IsWhatWorkersCompute) {
  const auto& [name, precision, workers, dropout, images] = GetParam();
  const yoke::testing::TempFolder folder;
  TestJob what;
  what.job.optimizer.decay_all = true;
  what.job.precision = precision;
  what.job.epochs = 12;
  what.samples = 16L * workers;
  what.dropout = dropout;
  if (images) {
    write_pictures(folder);
    what.images = folder.path();
    what.input = {3, 32, 32};
    what.classes = 2;
    what.samples = 16;
  } else if (workers == 1) {
    what.samples = 96;
  }
  const int lbs = images ? 4 : 16;
  const int steps = 12;
  const auto ours = train(what, {{1, workers - 1}}, lbs, steps);
  ASSERT_EQ(ours.losses.size(), 12U);

  const auto architecture = model_of(what);
  models::Network network(architecture, {.seed = 7});
  const auto dataset = data_of(what, data::Split::kTrain);
  std::vector<torch::Tensor> parameters;
  for (const auto& parameter : network.parameters()) parameters.push_back(parameter.tensor);
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-4));
  const data::Sampler sampler(what.samples, 7);
  const data::StepShape shape{.workers = workers, .lbs = lbs};
  const auto device = tensor::make_cpu_device(1);
  data::Cursor cursor;
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    double mean = 0;
    for (int worker = 0; worker < workers; ++worker) {
      base::StreamName draw{.seed = 7,
                            .epoch = cursor.epoch,
                            .step = static_cast<std::uint64_t>(cursor.step),
                            .worker = static_cast<std::uint32_t>(worker),
                            .purpose = base::Purpose::kAugment};
      models::Flow flow(dataset->load(sampler.samples(cursor, shape, worker), draw).value().tensors);
      draw.purpose = base::Purpose::kDropout;
      torch::Tensor loss;
      {
        std::optional<tensor::Autocast> autocast;
        if (precision == plan::Precision::kBf16) autocast.emplace(torch::kCPU, torch::kBFloat16);
        network.forward(flow, {.training = true, .generator = generator_for(draw, *device)});
        loss = torch::cross_entropy_loss(flow.at("x"), flow.at("targets"));
      }
      EXPECT_EQ(loss.scalar_type(), torch::kFloat);
      (loss / workers).backward();
      mean += loss.item<double>() / workers;
    }
    // Of one worker to the last bit; of several the sum is rounded in another order.
    EXPECT_NEAR(mean, ours.losses[static_cast<std::size_t>(step)], workers == 1 ? 0 : 1e-5) << "step " << step;
    optimizer.step();
    cursor = sampler.advance(cursor, shape);
  }
  NamedTensors theirs;
  for (const auto& parameter : network.parameters()) theirs.emplace_back(parameter.name, parameter.tensor.detach());
  EXPECT_LT(difference(theirs, ours.weights), workers == 1 ? 1e-6 : 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Trainer, PlainTorch,
                         ::testing::Values(PlainCase{.name = "Fp32"},
                                           PlainCase{.name = "Bf16", .precision = plan::Precision::kBf16},
                                           PlainCase{.name = "Dropout", .workers = 4, .dropout = 0.4},
                                           PlainCase{.name = "Images", .workers = 4, .images = true}),
                         [](const auto& param) { return param.param.name; });

TEST(Trainer, AShortLastStepIsWeightedByItsSamples) {
  TestJob what;
  what.samples = 45;  // steps of 32 and 13: 13 = 4 + 4 + 4 + 1, four workers have none
  const auto one = train(what, {{1, 7}}, 4, 4);
  for (const auto& shape : kShapesOfEight) EXPECT_LT(difference(one.weights, train(what, shape, 4, 4).weights), 1e-4);
  what.job.optimizer = {.lr = 0.05, .momentum = 0};
  // Without batch norm and momentum a step of eight workers is one of a single large worker.
  EXPECT_LT(difference(train(what, {{1, 7}}, 4, 4).weights, train(what, {{1, 0}}, 32, 4).weights), 1e-4);
}

TEST(Trainer, BuffersFollowWorkerZero) {
  TestJob what;
  what.model = "small_cnn";
  what.input = {1, 28, 28};
  const auto one = train(what, {{1, 7}}, 4, 3);
  for (const Shape& shape : {Shape{{4, 1}}, Shape{{2, 1}, {1, 3}}}) {
    EXPECT_LT(difference(one.weights, train(what, shape, 4, 3).weights), 1e-3) << "buffers are among the weights";
  }
}

TEST(Trainer, ClipsByTheNormOfTheWholeGradient) {
  TestJob what;
  what.job.optimizer = {.lr = 1, .momentum = 0, .clip_norm = 0.01};
  const auto fresh = copy_of(make_rank(what, 0).trainer->snapshot().value().weights);
  for (const Shape& shape : {Shape{{1, 7}}, Shape{{2, 1}, {1, 3}}}) {
    const auto trained = train(what, shape, 4, 1);
    double squares = 0;
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      squares += (trained.weights[i].second - fresh[i].second).to(torch::kDouble).pow(2).sum().item<double>();
    }
    EXPECT_NEAR(std::sqrt(squares), 0.01, 1e-4);
  }
}

/// The ranks that take part, by their own numbers, and how they train.
struct Generation {
  std::vector<int> members;
  Shape shape;
};

/// What there was after each generation.
struct Generations {
  std::vector<double> losses;  // of all steps
  std::vector<Checkpoint> ends;
};

/// Each trains `steps` steps with a plan and a group of its own. A rank that was not there gets the state.
Generations train_in_turn(const TestJob& what, const std::vector<Generation>& generations, int lbs, int steps) {
  const auto store = comm::make_memory_store();
  Generations result{.losses = std::vector<double>(generations.size() * static_cast<std::size_t>(steps)),
                     .ends = std::vector<Checkpoint>(generations.size())};
  in_threads(4, [&](int number) {
    Rank own = make_rank(what, number);
    for (std::size_t g = 0; g < generations.size(); ++g) {
      const auto& [members, shape] = generations[g];
      const auto found = std::ranges::find(members, number);
      if (found == members.end()) continue;
      const int rank = static_cast<int>(found - members.begin());
      auto group = join_ranks(*store, "generation " + std::to_string(g), rank, static_cast<int>(members.size()));
      const auto configured = own.trainer->configure(plan_of(shape, lbs), std::move(group), devices(members.size()));
      ASSERT_TRUE(configured.ok()) << configured.error().to_string();
      const std::size_t first = g * static_cast<std::size_t>(steps);
      ASSERT_EQ(own.trainer->cursor().step, static_cast<std::int64_t>(first)) << "a rank that joins gets the state";
      for (int i = 0; i < steps; ++i) {
        const auto report = own.trainer->step();
        ASSERT_TRUE(report.ok()) << report.error().to_string();
        if (rank == 0) result.losses[first + static_cast<std::size_t>(i)] = report->loss;
      }
      if (rank == 0) {
        auto& end = result.ends[g];
        end = own.trainer->snapshot().value();
        end.weights = copy_of(end.weights);
        end.optimizer = copy_of(end.optimizer);
      }
      EXPECT_TRUE(own.trainer->group().close().ok());
    }
  });
  return result;
}

TEST(Trainer, TakesAnotherPlanAndGroupBetweenSteps) {
  TestJob what;
  what.model = "small_cnn";  // with buffers
  what.job.reproducible = true;
  what.job.optimizer = {.name = plan::OptimizerName::kAdam, .lr = 0.002, .weight_decay = 1e-4};
  what.job.epochs = 4;
  constexpr int kLbs = 4;
  const auto undisturbed = train(what, {{1, 7}}, kLbs, 10);
  const auto [losses, ends] = train_in_turn(what,
                                            {{{0, 1}, {{2, 1}, {1, 3}}},
                                             {{0}, {{4, 1}}},
                                             {{2, 0}, {{1, 3}, {2, 1}}},
                                             {{1, 2, 3}, {{1, 1}, {2, 1}, {2, 0}}},
                                             {{3}, {{8, 0}}}},
                                            kLbs, 2);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], undisturbed.losses[i], 1e-9) << i;
  const auto& weights = ends.back().weights;
  EXPECT_TRUE(same_bits(undisturbed.weights, weights)) << difference(undisturbed.weights, weights);
}

TEST(Trainer, AnotherBatchSizeGoesOnAtTheSameSample) {
  TestJob what;
  what.job.epochs = 2;
  Rank own = make_rank(what, 0);
  const auto store = comm::make_memory_store();
  std::int64_t used = 0;
  for (int g = 0; !own.trainer->finished(); ++g) {
    const int lbs = 3 + g % 4;
    ASSERT_TRUE(own.trainer
                    ->configure(plan_of({{1 + g % 3, g % 2}}, lbs), join_ranks(*store, "g" + std::to_string(g), 0, 1),
                                devices(1))
                    .ok());
    for (int i = 0; i < 2 && !own.trainer->finished(); ++i) used += own.trainer->step().value().samples;
  }
  EXPECT_EQ(used, 2 * what.samples);
}

TEST(Trainer, ACheckpointGoesOnWithTheSameBits) {
  TestJob what;
  what.model = "small_cnn";
  what.input = {1, 28, 28};
  what.job.reproducible = true;
  what.job.optimizer = {.name = plan::OptimizerName::kAdam, .lr = 0.002, .weight_decay = 1e-4};
  const auto straight = train(what, {{1, 7}}, 4, 6);
  const auto store = comm::make_memory_store();
  Checkpoint saved;
  {
    Rank own = make_rank(what, 0);
    ASSERT_TRUE(own.trainer->configure(plan_of({{4, 1}}, 4), join_ranks(*store, "a", 0, 1), devices(1)).ok());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(own.trainer->step().ok());
    saved = own.trainer->snapshot().value();
    saved.weights = copy_of(saved.weights);
    saved.optimizer = copy_of(saved.optimizer);
  }
  NamedTensors weights;
  in_threads(2, [&](int rank) {
    Rank own = make_rank(what, rank);
    // Only one rank has read the checkpoint.
    if (rank == 1) {
      ASSERT_TRUE(own.trainer->restore(saved, "x").ok());
    }
    ASSERT_TRUE(
        own.trainer->configure(plan_of({{1, 1}, {2, 2}}, 4), join_ranks(*store, "b", rank, 2), devices(2)).ok());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(own.trainer->step().ok());
    if (rank == 0) weights = copy_of(own.trainer->snapshot().value().weights);
    EXPECT_TRUE(own.trainer->group().close().ok());
  });
  EXPECT_TRUE(same_bits(straight.weights, weights));
}

TEST(Trainer, RefusesACheckpointThatDoesNotFit) {
  TestJob what;
  Rank own = make_rank(what, 0);
  Checkpoint saved = own.trainer->snapshot().value();
  const auto before = copy_of(saved.weights);
  auto other = saved;
  other.meta.model = "resnet50";
  EXPECT_THAT(own.trainer->restore(other, "f").error().to_string(),
              HasSubstr("f: found a checkpoint of the model `resnet50`"));
  other = saved;
  other.weights[1].second = torch::zeros({3});
  EXPECT_THAT(own.trainer->restore(other, "f").error().message, HasSubstr("3 elements"));
  other = saved;
  other.optimizer.clear();
  EXPECT_THAT(own.trainer->restore(other, "f").error().message, HasSubstr("has no `momentum."));
  other = saved;
  other.weights.emplace_back("extra", torch::zeros({1}));
  EXPECT_THAT(own.trainer->restore(other, "f").error().message, HasSubstr("`extra`"));
  EXPECT_TRUE(same_bits(before, own.trainer->snapshot().value().weights));
}

TEST(Trainer, StopsAtALossThatIsNotFinite) {
  TestJob what;
  what.job.optimizer = {.lr = 1e30, .momentum = 0};
  const auto store = comm::make_memory_store();
  in_threads(2, [&](int rank) {
    Rank own = make_rank(what, rank);
    ASSERT_TRUE(
        own.trainer->configure(plan_of({{1, 1}, {1, 1}}, 4), join_ranks(*store, "g", rank, 2), devices(2)).ok());
    base::Result<StepReport> report = own.trainer->step();
    for (int i = 0; i < 10 && report.ok(); ++i) report = own.trainer->step();
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().kind, base::ErrorKind::kInput);
    EXPECT_THAT(report.error().message, HasSubstr("the loss of worker"));
    EXPECT_THAT(report.error().message, HasSubstr("lr 1e+30"));
  });
}

TEST(Trainer, ComputesInBf16WithWeightsInF32) {
  TestJob what;
  what.job.precision = plan::Precision::kBf16;
  const auto trained = train(what, {{2, 1}, {1, 3}}, 4, 9);
  EXPECT_EQ(trained.weights[0].second.scalar_type(), torch::kFloat);
  what.job.precision = plan::Precision::kFp32;
  const auto full = train(what, {{1, 7}}, 4, 9);
  EXPECT_LT(difference(full.weights, trained.weights), 0.1);
  EXPECT_GT(difference(full.weights, trained.weights), 1e-6) << "it did compute in bf16";
}

TEST(Trainer, ScalesTheLossAndLeavesOutStepsThatOverflow) {
  TestJob what;
  const auto plain = train(what, {{1, 7}}, 4, 5);
  what.loss_scale = LossScaleOptions{.start = 1024};
  EXPECT_LT(difference(plain.weights, train(what, {{2, 1}, {1, 3}}, 4, 5).weights), 1e-4);

  const auto fresh = copy_of(make_rank(what, 0).trainer->snapshot().value().weights);
  what.loss_scale = LossScaleOptions{.start = 1e40};
  EXPECT_TRUE(same_bits(fresh, train(what, {{2, 1}, {1, 3}}, 4, 1).weights)) << "a gradient of infinities is not used";
  what.job.epochs = 4;
  what.loss_scale = LossScaleOptions{.start = std::ldexp(1.0, 127)};
  EXPECT_FALSE(same_bits(fresh, train(what, {{2, 1}, {1, 3}}, 4, 12).weights)) << "the factor falls until it fits";
}

TEST(Trainer, TheLossScaleIsPartOfTheState) {
  TestJob what;
  what.job.reproducible = true;
  what.job.epochs = 4;
  what.job.lr.warmup_steps = 20;  // a step that makes no update must not count there
  // Beyond f32 at first: a few steps make no update. Then it grows and falls in turn.
  what.loss_scale = LossScaleOptions{.start = std::ldexp(1.0, 130), .grow_after = 2};
  const auto undisturbed = train(what, {{1, 7}}, 4, 12);
  ASSERT_EQ(undisturbed.losses.size(), 12U);

  // Those that join come first: they must not be taken for the furthest.
  const auto [losses, ends] =
      train_in_turn(what, {{{0}, {{4, 1}}}, {{1, 0}, {{2, 1}, {1, 3}}}, {{2, 0, 1}, {{1, 1}, {2, 1}, {2, 0}}}}, 4, 3);
  EXPECT_EQ(ends[0].meta.updates, 0) << "none of these steps made one";
  EXPECT_EQ(ends[0].meta.loss_scale.value(), (LossScaleState{.factor = std::ldexp(1.0, 127)}));
  EXPECT_GT(ends[2].meta.updates, 0);
  EXPECT_LT(ends[2].meta.updates, 6);

  Rank own = make_rank(what, 0);
  const auto store = comm::make_memory_store();
  ASSERT_TRUE(own.trainer->restore(ends[2], "saved").ok());
  ASSERT_TRUE(own.trainer->configure(plan_of({{8, 0}}, 4), join_ranks(*store, "resumed", 0, 1), devices(1)).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(own.trainer->step().ok());
  EXPECT_TRUE(same_bits(undisturbed.weights, own.trainer->snapshot().value().weights));
}

TEST(LossScale, FallsAtOnceAndGrowsSlowly) {
  LossScale scale({.start = 8, .grow_after = 3});
  EXPECT_FALSE(scale.judge(false));
  EXPECT_EQ(scale.factor(), 4);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(scale.judge(true));
  EXPECT_EQ(scale.factor(), 4);
  EXPECT_TRUE(scale.judge(true));
  EXPECT_EQ(scale.factor(), 8);
}

TEST(Trainer, EvaluatesOnAllRanksTogether) {
  TestJob what;
  const auto store = comm::make_memory_store();
  std::vector<Evaluation> evaluations(3);
  in_threads(2, [&](int rank) {
    Rank own = make_rank(what, rank);
    ASSERT_TRUE(
        own.trainer->configure(plan_of({{1, 0}, {1, 0}}, 4), join_ranks(*store, "g", rank, 2), devices(2)).ok());
    evaluations[static_cast<std::size_t>(rank)] = own.trainer->evaluate().value();
    EXPECT_TRUE(own.trainer->group().close().ok());
  });
  Rank own = make_rank(what, 0);
  ASSERT_TRUE(own.trainer->configure(plan_of({{2, 0}}, 4), join_ranks(*store, "h", 0, 1), devices(1)).ok());
  evaluations[2] = own.trainer->evaluate().value();
  for (const auto& evaluation : evaluations) {
    EXPECT_EQ(evaluation.samples, own.test->info().size);
    EXPECT_NEAR(evaluation.loss, evaluations[0].loss, 1e-5);
    EXPECT_EQ(evaluation.accuracy, evaluations[0].accuracy);
  }
}

TEST(Trainer, RefusesPlansThatDoNotFitTheDevices) {
  TestJob what;
  const auto store = comm::make_memory_store();
  Rank own = make_rank(what, 0);
  EXPECT_THAT(
      own.trainer->configure(plan_of({{1, 0}, {1, 0}}, 4), join_ranks(*store, "a", 0, 1), devices(1)).error().message,
      HasSubstr("device node1:0, which is not among the 1"));
  auto idle = plan_of({{1, 0}}, 4);
  idle.data_lanes[0].device = device(1);
  in_threads(2, [&](int rank) {
    Rank one = make_rank(what, rank);
    EXPECT_THAT(one.trainer->configure(idle, join_ranks(*store, "b", rank, 2), devices(2)).error().message,
                HasSubstr("nothing to do"));
  });
}

}  // namespace
}  // namespace yoke::engine::testing
