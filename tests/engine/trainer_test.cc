// The idea everything follows from: where workers run does not change what they compute.
#include "yoke/engine/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/ranks.h"
#include "yoke/engine/optimizer/lr.h"
#include "yoke/tensor/memory.h"

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

TEST(Trainer, OneWorkerIsPlainTorch) {
  TestJob what;
  what.job.optimizer.decay_all = true;
  const auto ours = train(what, {{1, 0}}, 16, 12);

  const auto architecture = models::make_model("mlp", {.classes = what.classes, .input_shape = what.input}).value();
  models::Network network(architecture, {.seed = 7});
  const auto dataset =
      data::open_dataset({.name = "synthetic", .limit = what.samples, .shape = what.input, .classes = what.classes})
          .value();
  std::vector<torch::Tensor> parameters;
  for (const auto& parameter : network.parameters()) parameters.push_back(parameter.tensor);
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-4));
  const data::Sampler sampler(what.samples, 7);
  data::Cursor cursor;
  for (int step = 0; step < 12; ++step) {
    const data::StepShape shape{.workers = 1, .lbs = 16};
    const auto batch = dataset->load(sampler.samples(cursor, shape, 0), std::nullopt).value();
    models::Flow flow(batch.tensors);
    optimizer.zero_grad();
    network.forward(flow, {.training = true});
    const auto score = architecture.loss(flow, {}, false);
    score.loss.backward();
    EXPECT_EQ(score.loss.item<double>(), ours.losses[static_cast<std::size_t>(step)]) << "step " << step;
    optimizer.step();
    cursor = sampler.advance(cursor, shape);
  }
}

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

TEST(Trainer, TakesAnotherPlanAndGroupBetweenSteps) {
  TestJob what;
  what.job.epochs = 4;
  constexpr int kLbs = 4;
  const auto undisturbed = train(what, {{1, 7}}, kLbs, 10);

  // Ranks that take part in each generation, by their own number; two steps each.
  const std::vector<std::pair<std::vector<int>, Shape>> generations{{{0, 1}, {{2, 1}, {1, 3}}},
                                                                    {{0}, {{4, 1}}},
                                                                    {{2, 0}, {{1, 3}, {2, 1}}},
                                                                    {{1, 2, 3}, {{1, 1}, {2, 1}, {2, 0}}},
                                                                    {{3}, {{8, 0}}}};
  const auto store = comm::make_memory_store();
  std::vector<double> losses(10);
  NamedTensors weights;
  in_threads(4, [&](int number) {
    Rank own = make_rank(what, number);
    for (std::size_t g = 0; g < generations.size(); ++g) {
      const auto& [members, shape] = generations[g];
      const auto found = std::ranges::find(members, number);
      if (found == members.end()) continue;
      const int rank = static_cast<int>(found - members.begin());
      auto group = join_ranks(*store, "generation " + std::to_string(g), rank, static_cast<int>(members.size()));
      const auto configured = own.trainer->configure(plan_of(shape, kLbs), std::move(group), devices(members.size()));
      ASSERT_TRUE(configured.ok()) << configured.error().to_string();
      ASSERT_EQ(own.trainer->cursor().step, static_cast<std::int64_t>(2 * g)) << "a rank that joins gets the state";
      for (std::size_t i = 0; i < 2; ++i) {
        const auto report = own.trainer->step();
        ASSERT_TRUE(report.ok()) << report.error().to_string();
        if (rank == 0) losses[2 * g + i] = report->loss;
      }
      if (g + 1 == generations.size()) weights = copy_of(own.trainer->snapshot().value().weights);
      EXPECT_TRUE(own.trainer->group().close().ok());
    }
  });
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], undisturbed.losses[i], 1e-5) << i;
  EXPECT_LT(difference(undisturbed.weights, weights), 1e-4);
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

TEST(Trainer, MoreWorkersAtOnceShareWeightsGradientsAndState) {
  tensor::use_metered_cpu_memory();
  TestJob what;
  what.input = {1, 200, 200};  // weights far larger than activations
  what.samples = 16;
  const auto bytes_with = [&](int vsw) {
    const auto before = tensor::cpu_memory().bytes;
    Rank own = make_rank(what, 0);
    const auto store = comm::make_memory_store();
    EXPECT_TRUE(own.trainer->configure(plan_of({{vsw, 0}}, 2), join_ranks(*store, "g", 0, 1), devices(1)).ok());
    EXPECT_TRUE(own.trainer->step().ok());
    return std::pair(tensor::cpu_memory().bytes - before, own.trainer->state_bytes().total());
  };
  const auto [one, state] = bytes_with(1);
  const auto [four, same_state] = bytes_with(4);
  EXPECT_EQ(state, same_state);
  EXPECT_GE(one, state);
  EXPECT_LT(four - one, state / 20) << "a worker more must not cost another set of weights";
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
