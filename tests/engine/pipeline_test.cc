// Pipeline lanes compute what data lanes do: the same bits in reproducible mode, however the model is cut; and the
// schedules with other math compute just their own.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <map>

#include "tests/engine/ranks.h"
#include "yoke/engine/optimizer/optimizer.h"
#include "yoke/plan/schedule.h"

namespace yoke::engine::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A lane by the replicas of its stages, e.g. {3, 2}; blocks are dealt to stages evenly.
struct Pipe {
  std::vector<int> replicas;
  int workers = 4;
  std::string schedule = "1f1b-flush";
  bool recompute = false;
};

models::Architecture model_of(const TestJob& what) {
  return models::make_model(what.model, {.classes = what.classes, .input_shape = what.input}).value();
}

plan::PipelineLane lane_of(const Pipe& pipe, const models::Architecture& model, int& next_device) {
  plan::PipelineLane lane{.schedule = pipe.schedule, .workers = pipe.workers, .recompute = pipe.recompute};
  const std::size_t blocks = model.blocks.size();
  const std::size_t stages = pipe.replicas.size();
  for (std::size_t s = 0; s < stages; ++s) {
    plan::PipelineStage stage;
    for (std::size_t b = s * blocks / stages; b < (s + 1) * blocks / stages; ++b) {
      stage.layers.push_back(model.blocks[b].name);
    }
    for (int i = 0; i < pipe.replicas[s]; ++i) stage.devices.push_back(device(next_device++));
    lane.stages.push_back(std::move(stage));
  }
  return lane;
}

/// Data lanes first, then pipelines; devices are numbered through.
plan::Plan mixed_plan(const TestJob& what, const Shape& data, const std::vector<Pipe>& pipes, int lbs,
                      plan::Sync sync = plan::Sync::kOverlap) {
  plan::Plan plan = plan_of(data, lbs, sync);
  int next = static_cast<int>(data.size());
  const auto model = model_of(what);
  for (const auto& pipe : pipes) plan.pipeline_lanes.push_back(lane_of(pipe, model, next));
  plan.gbs = plan.workers() * lbs;
  return plan;
}

int devices_of(const plan::Plan& plan) {
  auto count = plan.data_lanes.size();
  for (const auto& lane : plan.pipeline_lanes) {
    for (const auto& stage : lane.stages) count += stage.devices.size();
  }
  return static_cast<int>(count);
}

Trained train_plan(const TestJob& what, const plan::Plan& plan, int steps, const std::string& backend = "local") {
  const auto store = comm::make_memory_store();
  Trained result;
  const int size = devices_of(plan);
  in_threads(size, [&](int rank) {
    Rank own = make_rank(what, rank);
    const auto configured = own.trainer->configure(plan, join_ranks(*store, "g", rank, size, backend),
                                                   devices(static_cast<std::size_t>(size)));
    ASSERT_TRUE(configured.ok()) << configured.error().to_string();
    for (int step = 0; step < steps; ++step) {
      const auto report = own.trainer->step();
      ASSERT_TRUE(report.ok()) << report.error().to_string();
      if (rank == 0) result.losses.push_back(report->loss);
    }
    ASSERT_TRUE(own.trainer->at_rest());
    const auto snapshot = own.trainer->snapshot();
    ASSERT_TRUE(snapshot.ok()) << snapshot.error().to_string();
    if (rank == 0) result.weights = copy_of(snapshot->weights);
    EXPECT_TRUE(own.trainer->group().close().ok());
  });
  std::ranges::sort(result.weights, {}, [](const auto& named) { return named.first; });
  return result;
}

TestJob job_of(const std::string& model, std::vector<std::int64_t> input, bool reproducible) {
  TestJob what;
  what.model = model;
  what.input = std::move(input);
  what.job.reproducible = reproducible;
  return what;
}

class SameBits : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(SameBits, AsOneDeviceHoweverTheModelIsCut) {
  const auto& [model, schedule] = GetParam();
  TestJob what = job_of(model, {1, 28, 28}, true);
  if (model == "resnet18") what.input = {3, 32, 32};
  what.samples = 44;  // the last step of an epoch is short, and its last worker ragged
  const int steps = 5;
  const Trained one = train_plan(what, mixed_plan(what, {{1, 5}}, {}, 3), steps);
  const std::vector<std::vector<int>> shapes = model == "resnet18"
                                                   ? std::vector<std::vector<int>>{{2, 1}}
                                                   : std::vector<std::vector<int>>{{1, 1}, {3, 2}, {2, 3}};
  for (const auto& replicas : shapes) {
    const auto plan = mixed_plan(what, {}, {{.replicas = replicas, .workers = 6, .schedule = schedule}}, 3);
    const Trained cut = train_plan(what, plan, steps);
    EXPECT_TRUE(same_bits(one.weights, cut.weights)) << difference(one.weights, cut.weights);
    EXPECT_EQ(one.losses.size(), cut.losses.size());
    for (std::size_t i = 0; i < cut.losses.size(); ++i) EXPECT_NEAR(one.losses[i], cut.losses[i], 1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(Pipeline, SameBits,
                         ::testing::Combine(::testing::Values("small_cnn", "resnet18"),
                                            ::testing::Values("1f1b-flush", "gpipe")),
                         [](const auto& param) {
                           return std::get<0>(param.param) + (std::get<1>(param.param) == "gpipe" ? "Gpipe" : "Flush");
                         });

TEST(Pipeline, LanesOfBothKindsBesideEachOther) {
  TestJob what = job_of("mlp", {1, 6, 6}, true);
  const Trained one = train_plan(what, mixed_plan(what, {{2, 3}}, {}, 3), 6);
  // A data lane and two pipelines that are cut at different places.
  auto plan = mixed_plan(what, {{2, 0}}, {{.replicas = {1, 1}, .workers = 3}, {.replicas = {1}, .workers = 3}}, 3);
  auto& stages = plan.pipeline_lanes[0].stages;
  if (stages[0].layers.size() > 1) {
    stages[1].layers.insert(stages[1].layers.begin(), stages[0].layers.back());
    stages[0].layers.pop_back();
  }
  const Trained mixed = train_plan(what, plan, 6);
  EXPECT_TRUE(same_bits(one.weights, mixed.weights)) << difference(one.weights, mixed.weights);
}

TEST(Pipeline, RecomputesWithTheSameBits) {
  TestJob what = job_of("small_cnn", {1, 28, 28}, true);
  const Trained kept = train_plan(what, mixed_plan(what, {}, {{.replicas = {1, 1}, .workers = 4}}, 3), 4);
  const Trained again =
      train_plan(what, mixed_plan(what, {}, {{.replicas = {1, 1}, .workers = 4, .recompute = true}}, 3), 4);
  EXPECT_TRUE(same_bits(kept.weights, again.weights));
}

TEST(Pipeline, ClipsByTheNormAcrossStages) {
  TestJob what = job_of("mlp", {1, 6, 6}, true);
  what.job.optimizer.clip_norm = 0.05;
  const Trained one = train_plan(what, mixed_plan(what, {{1, 3}}, {}, 3), 4);
  const Trained cut = train_plan(what, mixed_plan(what, {}, {{.replicas = {2, 1}, .workers = 4}}, 3), 4);
  EXPECT_TRUE(same_bits(one.weights, cut.weights)) << difference(one.weights, cut.weights);
  what.job.optimizer.clip_norm = 0;
  const Trained free = train_plan(what, mixed_plan(what, {{1, 3}}, {}, 3), 4);
  EXPECT_FALSE(same_bits(free.weights, cut.weights)) << "the limit must have bound";
}

TEST(Pipeline, TakesOtherCutsBetweenSteps) {
  TestJob what = job_of("small_cnn", {1, 28, 28}, true);
  const Trained still = train_plan(what, mixed_plan(what, {{1, 3}}, {}, 3), 8);
  const std::vector<plan::Plan> plans{
      mixed_plan(what, {}, {{.replicas = {3, 1}, .workers = 4}}, 3),
      mixed_plan(what, {}, {{.replicas = {2, 2}, .workers = 4}}, 3),
      mixed_plan(what, {{1, 0}, {1, 0}, {1, 0}, {1, 0}}, {}, 3),
      mixed_plan(what, {{2, 0}}, {{.replicas = {1, 2}, .workers = 2, .schedule = "gpipe"}}, 3)};
  const auto store = comm::make_memory_store();
  NamedTensors weights;
  in_threads(4, [&](int rank) {
    Rank own = make_rank(what, rank);
    for (std::size_t g = 0; g < plans.size(); ++g) {
      const auto configured =
          own.trainer->configure(plans[g], join_ranks(*store, "g" + std::to_string(g), rank, 4), devices(4));
      ASSERT_TRUE(configured.ok()) << configured.error().to_string();
      for (int step = 0; step < 2; ++step) ASSERT_TRUE(own.trainer->step().ok());
    }
    const auto snapshot = own.trainer->snapshot();
    ASSERT_TRUE(snapshot.ok()) << snapshot.error().to_string();
    if (rank == 0) weights = copy_of(snapshot->weights);
    EXPECT_TRUE(own.trainer->group().close().ok());
  });
  std::ranges::sort(weights, {}, [](const auto& named) { return named.first; });
  EXPECT_TRUE(same_bits(still.weights, weights)) << difference(still.weights, weights);
}

TEST(Pipeline, ACheckpointGoesOnInAnotherCut) {
  TestJob what = job_of("small_cnn", {1, 28, 28}, true);
  const Trained still = train_plan(what, mixed_plan(what, {{1, 3}}, {}, 3), 6);
  const auto run = [&](const plan::Plan& plan, const std::optional<Checkpoint>& from, int steps) {
    const auto store = comm::make_memory_store();
    Checkpoint saved;
    const int size = devices_of(plan);
    in_threads(size, [&](int rank) {
      Rank own = make_rank(what, rank);
      if (from && rank == 0) {
        ASSERT_TRUE(own.trainer->restore(*from, "saved").ok());
      }
      const auto configured =
          own.trainer->configure(plan, join_ranks(*store, "g", rank, size), devices(static_cast<std::size_t>(size)));
      ASSERT_TRUE(configured.ok()) << configured.error().to_string();
      for (int step = 0; step < steps; ++step) {
        const auto done = own.trainer->step();
        ASSERT_TRUE(done.ok()) << done.error().to_string();
      }
      auto snapshot = own.trainer->snapshot();
      ASSERT_TRUE(snapshot.ok()) << snapshot.error().to_string();
      EXPECT_TRUE(own.trainer->group().close().ok());
      if (rank == 0) {
        saved.meta = snapshot->meta;
        saved.weights = copy_of(snapshot->weights);
        saved.optimizer = copy_of(snapshot->optimizer);
      }
    });
    return saved;
  };
  const auto three_one = mixed_plan(what, {}, {{.replicas = {3, 1}, .workers = 4}}, 3);
  const auto two_two = mixed_plan(what, {}, {{.replicas = {2, 2}, .workers = 4}}, 3);
  const auto alone = mixed_plan(what, {{1, 3}}, {}, 3);
  Checkpoint saved = run(three_one, std::nullopt, 2);
  saved = run(two_two, saved, 2);
  saved = run(alone, saved, 2);
  std::ranges::sort(saved.weights, {}, [](const auto& named) { return named.first; });
  EXPECT_TRUE(same_bits(still.weights, saved.weights)) << difference(still.weights, saved.weights);
}

TEST(Pipeline, EvaluatesThroughTheStages) {
  TestJob what = job_of("small_cnn", {1, 28, 28}, false);
  what.samples = 100;
  const auto evaluate = [&](const plan::Plan& plan) {
    const auto store = comm::make_memory_store();
    std::vector<Evaluation> all(static_cast<std::size_t>(devices_of(plan)));
    const int size = devices_of(plan);
    in_threads(size, [&](int rank) {
      Rank own = make_rank(what, rank);
      ASSERT_TRUE(
          own.trainer->configure(plan, join_ranks(*store, "g", rank, size), devices(static_cast<std::size_t>(size)))
              .ok());
      const auto evaluation = own.trainer->evaluate();
      ASSERT_TRUE(evaluation.ok()) << evaluation.error().to_string();
      all[static_cast<std::size_t>(rank)] = *evaluation;
      ASSERT_TRUE(own.trainer->step().ok()) << "training goes on";
      EXPECT_TRUE(own.trainer->group().close().ok());
    });
    for (const auto& one : all) EXPECT_EQ(one.samples, all[0].samples);
    return all[0];
  };
  const Evaluation one = evaluate(mixed_plan(what, {{1, 3}}, {}, 3));
  const Evaluation cut = evaluate(mixed_plan(what, {}, {{.replicas = {2, 1}, .workers = 4}}, 3));
  const Evaluation mixed = evaluate(mixed_plan(what, {{1, 1}}, {{.replicas = {1, 2}, .workers = 2}}, 3));
  EXPECT_GT(one.samples, 0);
  for (const auto& other : {cut, mixed}) {
    EXPECT_EQ(one.samples, other.samples);
    EXPECT_NEAR(one.loss, other.loss, 1e-6);
    EXPECT_DOUBLE_EQ(one.accuracy, other.accuracy);
  }
}

/// What `1f1b-stash` and `2bw` must compute, in one process and by hand: every worker's gradient with the weights of
/// the version that the schedule names, every update as the schedule orders it.
Trained by_hand(const TestJob& what, const plan::Plan& plan, int steps) {
  const auto model = model_of(what);
  const auto& lane = plan.pipeline_lanes[0];
  const auto schedule = plan::make_schedule(plan, {.steps = steps}).value();
  const auto train =
      data::open_dataset({.name = "synthetic", .limit = what.samples, .shape = what.input, .classes = what.classes})
          .value();
  const data::Sampler sampler(what.samples, static_cast<std::uint64_t>(what.job.seed));
  const data::StepShape shape{.workers = plan.workers(), .lbs = plan.lbs};
  std::vector<data::Cursor> cursors{{}};
  for (int i = 1; i < steps; ++i) cursors.push_back(sampler.advance(cursors.back(), shape));

  // Versions of each stage's parameters, by name; version 0 is that of the seed.
  struct Stage {
    std::vector<std::map<std::string, torch::Tensor>> versions;
    std::map<std::string, torch::Tensor> momentum;
    int replicas = 1;
  };
  models::Network network(model, {.seed = static_cast<std::uint64_t>(what.job.seed)});
  std::map<std::string, int> stage_of;
  std::vector<Stage> stages(lane.stages.size());
  std::size_t block = 0;
  std::vector<int> stage_of_block;
  for (std::size_t s = 0; s < lane.stages.size(); ++s) {
    for (std::size_t i = 0; i < lane.stages[s].layers.size(); ++i, ++block)
      stage_of_block.push_back(static_cast<int>(s));
    stages[s].versions.emplace_back();
    stages[s].replicas = static_cast<int>(lane.stages[s].devices.size());
  }
  for (const auto& parameter : network.parameters()) {
    const int s = stage_of_block[parameter.block];
    stage_of[parameter.name] = s;
    stages[static_cast<std::size_t>(s)].versions[0][parameter.name] = parameter.tensor.detach().clone();
  }
  // The version that each worker's passes use in each stage.
  std::map<std::pair<int, int>, int> version_of;
  for (const auto& program : schedule.programs) {
    for (const auto& op : program.ops) {
      if (op.kind == plan::ScheduleOpKind::kForward) version_of[{program.stage, op.worker}] = op.version;
    }
  }
  std::map<int, std::map<std::string, torch::Tensor>> gradients;  // by worker
  const auto gradient_of = [&](int worker) -> std::map<std::string, torch::Tensor>& {
    auto& found = gradients[worker];
    if (!found.empty()) return found;
    for (const auto& parameter : network.parameters()) {
      const auto s = static_cast<std::size_t>(stage_of[parameter.name]);
      const int version = version_of.at({static_cast<int>(s), worker});
      auto tensor = parameter.tensor;
      tensor.set_data(stages[s].versions.at(static_cast<std::size_t>(version)).at(parameter.name).clone());
      tensor.mutable_grad().reset();
    }
    const auto& at = cursors[static_cast<std::size_t>(worker / plan.workers())];
    const auto batch = train->load(sampler.samples(at, shape, worker % plan.workers()), {}).value();
    models::Flow flow{models::NamedTensors(batch.tensors.begin(), batch.tensors.end())};
    network.forward(flow, {.training = true});
    model.loss(flow, {}, false).loss.backward();
    for (const auto& parameter : network.parameters()) found[parameter.name] = parameter.tensor.grad().clone();
    return found;
  };
  const auto& spec = what.job.optimizer;
  const int total = schedule.workers;
  const bool stash = lane.schedule == "1f1b-stash";
  // Updates in the order of the workers they are of: whatever they need was made before.
  for (int worker = 0; worker < total; ++worker) {
    for (std::size_t s = stages.size(); s-- > 0;) {
      Stage& stage = stages[s];
      const int round = stash ? stage.replicas : lane.workers;
      if ((worker + 1) % round != 0 && worker + 1 != total) continue;
      const int first = worker / round * round;
      const double rate = spec.lr * plan::rate_factor_of(lane, static_cast<int>(s));
      std::map<std::string, torch::Tensor> next;
      for (const auto& [name, weights] : stage.versions.back()) {
        torch::Tensor mean;
        for (int w = first; w <= worker; ++w) {
          const auto& gradient = gradient_of(w).at(name);
          mean = mean.defined() ? mean + gradient : gradient.clone();
        }
        mean = mean / (worker - first + 1);
        if (decays(spec, name, weights.dim())) mean = mean + spec.weight_decay * weights;
        auto& momentum = stage.momentum[name];
        momentum = momentum.defined() ? spec.momentum * momentum + mean : mean;
        next[name] = weights - rate * momentum;
      }
      stage.versions.push_back(std::move(next));
    }
  }
  Trained result;
  for (const auto& stage : stages) {
    for (const auto& [name, weights] : stage.versions.back()) result.weights.emplace_back(name, weights);
  }
  std::ranges::sort(result.weights, {}, [](const auto& named) { return named.first; });
  return result;
}

struct StaleCase {
  std::string schedule;
  std::vector<int> replicas;
  bool vertical = false;
  std::string model = "mlp";
};
std::ostream& operator<<(std::ostream& out, const StaleCase& one) {
  return out << fmt::format("{} {} {}{}", one.model, one.schedule, fmt::join(one.replicas, "-"),
                            one.vertical ? " vertical" : "");
}
class RunsOn : public ::testing::TestWithParam<StaleCase> {};

TEST_P(RunsOn, EqualsTheSameStaleVersionsByHand) {
  const auto& [schedule, replicas, vertical, model] = GetParam();
  TestJob what = job_of(model, {1, 28, 28}, false);
  what.samples = 240;
  auto plan = mixed_plan(what, {}, {{.replicas = replicas, .workers = 6, .schedule = schedule}}, 4);
  plan.pipeline_lanes[0].vertical_sync = vertical;
  const int steps = 10;
  const Trained hand = by_hand(what, plan, steps);
  Trained real = train_plan(what, plan, steps);
  Trained fresh = train_plan(what, mixed_plan(what, {{1, 5}}, {}, 4), steps);
  for (auto* trained : {&real, &fresh}) {
    std::erase_if(trained->weights, [](const auto& named) {
      return named.first.find("running_") != std::string::npos || named.first.find("num_batches") != std::string::npos;
    });
  }
  EXPECT_LT(difference(hand.weights, real.weights), 1e-4);
  EXPECT_GT(difference(fresh.weights, real.weights), 1e-4) << "stale weights are other weights";
}

INSTANTIATE_TEST_SUITE_P(Pipeline, RunsOn,
                         ::testing::Values(StaleCase{"1f1b-stash", {1, 1}}, StaleCase{"1f1b-stash", {1, 1, 1}},
                                           StaleCase{"1f1b-stash", {1, 1, 1}, true}, StaleCase{"1f1b-stash", {2, 1}},
                                           StaleCase{"1f1b-stash", {1, 2}}, StaleCase{"2bw", {1, 1}},
                                           StaleCase{"2bw", {2, 1}}, StaleCase{"2bw", {1, 1}, false, "small_cnn"},
                                           StaleCase{"1f1b-stash", {1, 1}, false, "small_cnn"}));

/// A model whose first block's output is used again by the last, across all blocks between; and whose blocks pass on a
/// tensor of another type and shape.
models::Architecture skipping() {
  struct Linear final : models::Block {
    Linear(int inputs, std::string keep_as, std::string add)
        : layer(register_module("layer", torch::nn::Linear(inputs, 12))),
          keep(std::move(keep_as)),
          also(std::move(add)) {}
    void forward(models::Flow& flow, const models::Pass&) override {
      auto x = torch::tanh(layer(flow.at("x").flatten(1)));
      if (!keep.empty()) flow.set(keep, x * 2);
      if (!also.empty()) x = x + flow.take(also);
      flow.set("x", x);
    }
    torch::nn::Linear layer;
    std::string keep;
    std::string also;
  };
  const auto block = [](const std::string& name, int inputs, const std::string& keep, const std::string& add) {
    return models::BlockSpec{
        .name = name, .prefix = name, .make = [=] { return std::make_shared<Linear>(inputs, keep, add); }};
  };
  auto loss = models::make_model("mlp", {.classes = 12}).value().loss;
  return {.name = "skipping",
          .blocks = {block("a", 36, "far", ""), block("b", 12, "near", ""), block("c", 12, "", "near"),
                     block("d", 12, "", "far")},
          .loss = std::move(loss)};
}

TEST(Pipeline, SkipTensorsTravelAcrossStages) {
  ASSERT_TRUE(models::register_model({.name = "skipping",
                                      .summary = "of a test",
                                      .make = [](const models::ModelOptions&) -> base::Result<models::Architecture> {
                                        return skipping();
                                      }})
                  .ok());
  TestJob what = job_of("skipping", {1, 6, 6}, true);
  const Trained one = train_plan(what, mixed_plan(what, {{1, 3}}, {}, 3), 5);
  for (const auto& replicas : {std::vector{1, 1}, std::vector{1, 1, 1, 1}, std::vector{2, 1, 1}}) {
    const Trained cut = train_plan(what, mixed_plan(what, {}, {{.replicas = replicas, .workers = 4}}, 3), 5);
    EXPECT_TRUE(same_bits(one.weights, cut.weights)) << difference(one.weights, cut.weights);
  }
}

TEST(Pipeline, RefusesPlansThatDoNotFit) {
  TestJob what = job_of("mlp", {1, 6, 6}, false);
  const auto problem = [&](const plan::Plan& plan, int ranks) {
    const auto store = comm::make_memory_store();
    std::string text;
    in_threads(ranks, [&](int rank) {
      Rank own = make_rank(what, rank);
      const auto configured =
          own.trainer->configure(plan, join_ranks(*store, "g", rank, ranks), devices(static_cast<std::size_t>(ranks)));
      ASSERT_FALSE(configured.ok());
      EXPECT_EQ(configured.error().kind, base::ErrorKind::kInput);
      if (rank == 0) text = configured.error().to_string();
    });
    return text;
  };
  const auto good = mixed_plan(what, {}, {{.replicas = {1, 1}, .workers = 4}}, 3);
  auto other = good;
  other.pipeline_lanes[0].stages[0].layers[0] = "conv1";
  EXPECT_THAT(problem(other, 2), AllOf(HasSubstr("conv1"), HasSubstr("mlp"), HasSubstr("stages[0]")));
  auto short_plan = good;
  short_plan.pipeline_lanes[0].stages[1].layers.pop_back();
  EXPECT_THAT(problem(short_plan, 2), HasSubstr("expected all"));
  EXPECT_THAT(problem(good, 3), HasSubstr("nothing to do"));
  auto absent = good;
  absent.pipeline_lanes[0].stages[1].devices[0] = {.node = "elsewhere", .index = 0};
  EXPECT_THAT(problem(absent, 2), HasSubstr("elsewhere"));
  what.job.optimizer.clip_norm = 1;
  auto stale = good;
  stale.pipeline_lanes[0].schedule = "1f1b-stash";
  EXPECT_THAT(problem(stale, 2), AllOf(HasSubstr("1f1b-stash"), HasSubstr("clip_norm")));
}

TEST(Pipeline, DifferentPlansAreNoticedAndTheDifferenceNamed) {
  TestJob what = job_of("mlp", {1, 6, 6}, false);
  const auto store = comm::make_memory_store();
  in_threads(2, [&](int rank) {
    Rank own = make_rank(what, rank);
    const auto plan = mixed_plan(what, {}, {{.replicas = {1, 1}, .workers = rank == 0 ? 4 : 5}}, 3);
    const auto configured = own.trainer->configure(plan, join_ranks(*store, "g", rank, 2), devices(2));
    ASSERT_FALSE(configured.ok());
    EXPECT_THAT(configured.error().to_string(), AllOf(HasSubstr("different plans"), HasSubstr("\"gbs\"")));
  });
}

TEST(Pipeline, AStageThatEndsInTheMiddleIsReportedByAll) {
  TestJob what = job_of("mlp", {1, 6, 6}, false);
  const auto plan = mixed_plan(what, {}, {{.replicas = {1, 1, 1}, .workers = 4}}, 3);
  const auto store = comm::make_memory_store();
  in_threads(3, [&](int rank) {
    Rank own = make_rank(what, rank);
    ASSERT_TRUE(own.trainer->configure(plan, join_ranks(*store, "g", rank, 3), devices(3)).ok());
    ASSERT_TRUE(own.trainer->step().ok());
    if (rank == 1) return;  // its group goes without a word
    const auto report = own.trainer->step();
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().kind, base::ErrorKind::kPeer);
    EXPECT_THAT(report.error().to_string(), HasSubstr("rank 1"));
  });
}

}  // namespace
}  // namespace yoke::engine::testing
