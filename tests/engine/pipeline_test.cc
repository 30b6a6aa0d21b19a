// Pipeline lanes compute what data lanes do: the same bits in reproducible mode, however the model is cut; and the
// schedules with other math compute just their own.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <latch>
#include <map>
#include <set>

#include "tests/engine/ranks.h"
#include "yoke/base/mutex.h"
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
      if (own.trainer->cursor().consumed == 0) {
        ASSERT_TRUE(own.trainer->evaluate().ok());  // leaves no trace in what is trained
      }
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
  if (model == "resnet18") {
    what.input = {3, 32, 32};
  } else {
    what.dropout = 0.4;
  }
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
  for (const char* model : {"small_cnn", "mlp"}) {  // with buffers; with dropout in both stages
    TestJob what = job_of(model, {1, 28, 28}, true);
    what.dropout = 0.4;
    const Trained kept = train_plan(what, mixed_plan(what, {{1, 3}}, {}, 3), 4);
    const Trained again =
        train_plan(what, mixed_plan(what, {}, {{.replicas = {1, 1}, .workers = 4, .recompute = true}}, 3), 4);
    EXPECT_TRUE(same_bits(kept.weights, again.weights)) << model << " " << difference(kept.weights, again.weights);
  }
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
  what.job.optimizer = {.name = plan::OptimizerName::kAdam, .lr = 0.002, .weight_decay = 1e-4};
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
  what.job.optimizer = {.name = plan::OptimizerName::kAdam, .lr = 0.002, .weight_decay = 1e-4};
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

TEST(Pipeline, AllRanksHearOfWeightsThatAreNotFinite) {
  TestJob what = job_of("mlp", {1, 6, 6}, false);
  auto weights = copy_of(make_rank(what, 0).trainer->snapshot().value().weights);
  weights[0].second.flatten()[3] = NAN;  // the first stage only has it
  const auto plan = mixed_plan(what, {}, {{.replicas = {1, 1}, .workers = 4}}, 3);
  const auto store = comm::make_memory_store();
  in_threads(2, [&](int rank) {
    Rank own = make_rank(what, rank);
    ASSERT_TRUE(own.trainer->load(weights, "weights").ok());
    ASSERT_TRUE(own.trainer->configure(plan, join_ranks(*store, "g", rank, 2), devices(2)).ok());
    const auto snapshot = own.trainer->snapshot();
    ASSERT_FALSE(snapshot.ok());
    EXPECT_EQ(snapshot.error().kind, base::ErrorKind::kInput);
    EXPECT_THAT(snapshot.error().message, HasSubstr("the weights are not finite"));
  });
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
/// the version that the schedule names, every update as the schedule orders it. The pipeline drains with each epoch.
class ByHand {
 public:
  ByHand(const TestJob& what, const plan::Plan& plan)
      : what_(what),
        plan_(plan),
        lane_(plan.pipeline_lanes[0]),
        model_(model_of(what)),
        train_(data::open_dataset(
                   {.name = "synthetic", .limit = what.samples, .shape = what.input, .classes = what.classes})
                   .value()),
        sampler_(what.samples, static_cast<std::uint64_t>(what.job.seed)),
        network_(model_, {.seed = static_cast<std::uint64_t>(what.job.seed)}),
        stages_(lane_.stages.size()) {
    std::vector<std::size_t> stage_of_block;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      stage_of_block.insert(stage_of_block.end(), lane_.stages[s].layers.size(), s);
      stages_[s].versions.emplace_back();
    }
    for (const auto& parameter : network_.parameters()) {
      const std::size_t s = stage_of_block[parameter.block];
      stage_of_[parameter.name] = s;
      stages_[s].versions[0][parameter.name] = parameter.tensor.detach().clone();
    }
  }

  Trained epochs(int count) {
    data::Cursor at;
    for (int epoch = 0; epoch < count; ++epoch) at = run_epoch(at);
    Trained result;
    for (const auto& stage : stages_) {
      for (const auto& [name, weights] : stage.versions.back()) result.weights.emplace_back(name, weights);
    }
    std::ranges::sort(result.weights, {}, [](const auto& named) { return named.first; });
    return result;
  }

 private:
  using ByName = std::map<std::string, torch::Tensor>;
  /// Versions of a stage's parameters; version 0 is that of the start of the epoch.
  struct Stage {
    std::vector<ByName> versions;
    ByName momentum;
  };

  data::Cursor run_epoch(data::Cursor at) {
    cursors_.clear();
    for (const auto epoch = at.epoch; at.epoch == epoch; at = sampler_.advance(at, shape_)) cursors_.push_back(at);
    const std::int64_t last = sampler_.step_samples(cursors_.back(), shape_);
    const auto schedule =
        plan::make_schedule(plan_, {.steps = static_cast<int>(cursors_.size()),
                                    .last_step_workers = static_cast<int>((last + plan_.lbs - 1) / plan_.lbs)})
            .value();
    version_of_.clear();
    gradients_.clear();
    for (auto& stage : stages_) stage.versions.erase(stage.versions.begin(), stage.versions.end() - 1);
    for (const auto& program : schedule.programs) {
      for (const auto& op : program.ops) {
        if (op.kind == plan::ScheduleOpKind::kForward) version_of_[{program.stage, op.worker}] = op.version;
      }
    }
    // Updates in the order of the workers they are of: whatever they need was made before.
    for (int worker = 0; worker < schedule.workers; ++worker) {
      for (std::size_t s = stages_.size(); s-- > 0;) {
        const int round =
            lane_.schedule == "1f1b-stash" ? static_cast<int>(lane_.stages[s].devices.size()) : lane_.workers;
        if ((worker + 1) % round == 0 || worker + 1 == schedule.workers) update(s, worker / round * round, worker);
      }
    }
    return at;
  }

  /// By the mean over the samples of the workers from `first` to `last`.
  void update(std::size_t s, int first, int last) {
    Stage& stage = stages_[s];
    const auto& spec = what_.job.optimizer;
    const double rate = spec.lr * plan::rate_factor_of(lane_, static_cast<int>(s));
    ByName next;
    for (const auto& [name, weights] : stage.versions.back()) {
      torch::Tensor mean = torch::zeros_like(weights);
      double samples = 0;
      for (int worker = first; worker <= last; ++worker) {
        const auto own = static_cast<double>(samples_of(worker).size());
        mean = mean + gradient_of(worker).at(name) * own;
        samples += own;
      }
      mean = mean / samples;
      if (decays(spec, name, weights.dim())) mean = mean + spec.weight_decay * weights;
      auto& momentum = stage.momentum[name];
      momentum = momentum.defined() ? spec.momentum * momentum + mean : mean;
      next[name] = weights - rate * momentum;
    }
    stage.versions.push_back(std::move(next));
  }

  std::vector<std::int64_t> samples_of(int worker) const {
    return sampler_.samples(cursors_[static_cast<std::size_t>(worker / plan_.workers())], shape_,
                            worker % plan_.workers());
  }

  const ByName& gradient_of(int worker) {
    auto& found = gradients_[worker];
    if (!found.empty()) return found;
    for (const auto& parameter : network_.parameters()) {
      const auto s = stage_of_[parameter.name];
      const int version = version_of_.at({static_cast<int>(s), worker});
      auto tensor = parameter.tensor;
      tensor.set_data(stages_[s].versions.at(static_cast<std::size_t>(version)).at(parameter.name).clone());
      tensor.mutable_grad().reset();
    }
    const auto batch = train_->load(samples_of(worker), {}).value();
    models::Flow flow{models::NamedTensors(batch.tensors.begin(), batch.tensors.end())};
    network_.forward(flow, {.training = true});
    model_.loss(flow, {}, false).loss.backward();
    for (const auto& parameter : network_.parameters()) found[parameter.name] = parameter.tensor.grad().clone();
    return found;
  }

  const TestJob& what_;
  const plan::Plan& plan_;
  const plan::PipelineLane& lane_;
  const models::Architecture model_;
  const std::unique_ptr<data::Dataset> train_;
  const data::Sampler sampler_;
  const data::StepShape shape_{.workers = plan_.workers(), .lbs = plan_.lbs};
  models::Network network_;
  std::map<std::string, std::size_t> stage_of_;
  std::vector<Stage> stages_;
  std::vector<data::Cursor> cursors_;              // of the epoch's steps
  std::map<std::pair<int, int>, int> version_of_;  // by stage and worker
  std::map<int, ByName> gradients_;                // by worker
};

struct StaleCase {
  std::string schedule;
  std::vector<int> replicas;
  bool vertical = false;
  std::string model = "mlp";
  std::optional<int> warmup = {};  // of the first stage
  std::int64_t samples = 240;      // of an epoch: ten steps
};
std::ostream& operator<<(std::ostream& out, const StaleCase& one) {
  return out << fmt::format("{} {} {}{}{}, {} samples", one.model, one.schedule, fmt::join(one.replicas, "-"),
                            one.vertical ? " vertical" : "", one.warmup ? " warm-up" : "", one.samples);
}
class RunsOn : public ::testing::TestWithParam<StaleCase> {};

TEST_P(RunsOn, EqualsTheSameStaleVersionsByHand) {
  const StaleCase& one = GetParam();
  TestJob what = job_of(one.model, {1, 28, 28}, false);
  what.samples = one.samples;
  auto plan = mixed_plan(what, {}, {{.replicas = one.replicas, .workers = 6, .schedule = one.schedule}}, 4);
  plan.pipeline_lanes[0].vertical_sync = one.vertical;
  plan.pipeline_lanes[0].stages[0].warmup = one.warmup;
  const int epochs = one.samples < 240 ? 2 : 1;
  const int steps = epochs * static_cast<int>((one.samples + plan.gbs - 1) / plan.gbs);
  const Trained hand = ByHand(what, plan).epochs(epochs);
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
                                           StaleCase{"1f1b-stash", {1, 1}, false, "small_cnn"},
                                           StaleCase{"1f1b-stash", {2, 1}, true},
                                           StaleCase{"1f1b-stash", {1, 1}, false, "mlp", 3}));

// Two epochs whose last steps are short and whose last workers are ragged, with an evaluation between.
INSTANTIATE_TEST_SUITE_P(PipelineBeyondOneSpan, RunsOn,
                         ::testing::Values(StaleCase{"1f1b-stash", {1, 1}, false, "mlp", {}, 110},
                                           StaleCase{"1f1b-stash", {2, 1}, false, "mlp", {}, 110},
                                           StaleCase{"2bw", {1, 1}, false, "mlp", {}, 110}));

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

/// Makes a model of the tests known; once, for several tests may use it.
void register_once(const std::string& name, const std::function<models::Architecture()>& make) {
  if (models::make_model(name, {}).ok()) return;
  ASSERT_TRUE(
      models::register_model(
          {.name = name,
           .summary = "of a test",
           .make = [make](const models::ModelOptions&) -> base::Result<models::Architecture> { return make(); }})
          .ok());
}

TEST(Pipeline, SkipTensorsTravelAcrossStages) {
  register_once("skipping", skipping);
  TestJob what = job_of("skipping", {1, 6, 6}, true);
  const Trained one = train_plan(what, mixed_plan(what, {{1, 3}}, {}, 3), 5);
  for (const auto& replicas : {std::vector{1, 1}, std::vector{1, 1, 1, 1}, std::vector{2, 1, 1}}) {
    const Trained cut = train_plan(what, mixed_plan(what, {}, {{.replicas = replicas, .workers = 4}}, 3), 5);
    EXPECT_TRUE(same_bits(one.weights, cut.weights)) << difference(one.weights, cut.weights);
  }
}

class BesideADataLane : public ::testing::TestWithParam<std::string> {};

TEST_P(BesideADataLane, APipelineComputesTheSameBits) {
  register_once("skipping", skipping);
  TestJob what = job_of(GetParam(), {1, 6, 6}, true);
  if (GetParam() == "resnet18") what.input = {3, 32, 32};
  const Trained one = train_plan(what, mixed_plan(what, {{1, 3}}, {}, 3), 3);
  const Trained mixed = train_plan(what, mixed_plan(what, {{2, 0}}, {{.replicas = {1, 1}, .workers = 2}}, 3), 3);
  EXPECT_TRUE(same_bits(one.weights, mixed.weights)) << difference(one.weights, mixed.weights);
}

INSTANTIATE_TEST_SUITE_P(Pipeline, BesideADataLane, ::testing::Values("resnet18", "skipping"));

/// Shapes that the model below has met in its last block.
struct Lengths {
  base::Mutex mutex;
  std::set<std::int64_t> seen YOKE_GUARDED_BY(mutex);
};
Lengths& lengths() {
  static Lengths all;
  return all;
}

/// What a worker's first block lets through is as long as its data says: shapes differ from message to message.
models::Architecture cropping() {
  struct Crop final : models::Block {
    void forward(models::Flow& flow, const models::Pass&) override {
      const auto x = flow.at("x").flatten(1, 2);
      const auto rows = 1 + static_cast<std::int64_t>(x.abs().sum().item<double>() * 1000) % 6;
      flow.set("x", torch::tanh(layer(x.slice(1, 0, rows))));
    }
    torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 12));
  };
  struct Middle final : models::Block {
    void forward(models::Flow& flow, const models::Pass&) override { flow.set("x", torch::tanh(layer(flow.at("x")))); }
    torch::nn::Linear layer = register_module("layer", torch::nn::Linear(12, 12));
  };
  struct Last final : models::Block {
    void forward(models::Flow& flow, const models::Pass&) override {
      {
        base::MutexLock lock(lengths().mutex);
        lengths().seen.insert(flow.at("x").size(1));
      }
      flow.set("x", layer(flow.at("x").mean(1)));
    }
    torch::nn::Linear layer = register_module("layer", torch::nn::Linear(12, 12));
  };
  return {.name = "cropping",
          .blocks = {{.name = "a", .prefix = "a", .make = [] { return std::make_shared<Crop>(); }},
                     {.name = "b", .prefix = "b", .make = [] { return std::make_shared<Middle>(); }},
                     {.name = "c", .prefix = "c", .make = [] { return std::make_shared<Last>(); }}},
          .loss = models::make_model("mlp", {.classes = 12}).value().loss};
}

TEST(Pipeline, ShapesMayDifferFromWorkerToWorker) {
  register_once("cropping", cropping);
  TestJob what = job_of("cropping", {1, 6, 6}, true);
  const Trained one = train_plan(what, mixed_plan(what, {{1, 3}}, {}, 3), 5);
  for (const char* schedule : {"1f1b-flush", "gpipe"}) {
    for (const bool recompute : {false, true}) {
      const Pipe pipe{.replicas = {1, 1, 1}, .workers = 4, .schedule = schedule, .recompute = recompute};
      const Trained cut = train_plan(what, mixed_plan(what, {}, {pipe}, 3), 5);
      EXPECT_TRUE(same_bits(one.weights, cut.weights)) << schedule << " " << difference(one.weights, cut.weights);
    }
  }
  base::MutexLock lock(lengths().mutex);
  EXPECT_GT(lengths().seen.size(), 2U) << "the test must have seen several shapes";
}

class OverRealGroups : public ::testing::TestWithParam<std::string> {};

TEST_P(OverRealGroups, StagesWithReplicasComputeTheSame) {
  for (const auto& backend : comm::list_backends()) {
    if (backend.name == GetParam() && !backend.available) GTEST_SKIP() << backend.name << " is not in this build";
  }
  TestJob what = job_of("mlp", {1, 6, 6}, true);
  const Trained one = train_plan(what, mixed_plan(what, {{1, 3}}, {}, 3), 5);
  const auto plan = mixed_plan(what, {}, {{.replicas = {2, 1}, .workers = 4}}, 3);
  const Trained cut = train_plan(what, plan, 5, GetParam());
  EXPECT_TRUE(same_bits(one.weights, cut.weights)) << difference(one.weights, cut.weights);

  auto stale = plan;
  stale.pipeline_lanes[0].schedule = "1f1b-stash";
  const int epoch = 8;  // 96 samples in steps of 12
  const Trained local = train_plan(what, stale, epoch);
  const Trained real = train_plan(what, stale, epoch, GetParam());
  EXPECT_TRUE(same_bits(local.weights, real.weights)) << difference(local.weights, real.weights);
}

INSTANTIATE_TEST_SUITE_P(Pipeline, OverRealGroups, ::testing::Values("shm", "gloo"));

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
  const auto too_many = mixed_plan(what, {}, {{.replicas = {1, 1, 1, 1}, .workers = 4}}, 3);  // of three blocks
  EXPECT_THAT(problem(too_many, 4), HasSubstr("pipeline_lanes: found no layers in stages[0]"));
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
  std::latch first_step(3);  // who goes before the others have ended the step takes that from them too
  in_threads(3, [&](int rank) {
    Rank own = make_rank(what, rank);
    EXPECT_TRUE(own.trainer->configure(plan, join_ranks(*store, "g", rank, 3), devices(3)).ok());
    EXPECT_TRUE(own.trainer->step().ok());
    first_step.arrive_and_wait();
    if (rank == 1) return;  // its group goes without a word
    const auto report = own.trainer->step();
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().kind, base::ErrorKind::kPeer);
    EXPECT_THAT(report.error().to_string(), HasSubstr("rank 1"));
  });
}

class AfterAFailure : public ::testing::TestWithParam<std::string> {};

/// Rank 2 goes in the middle of training; the two that are left take a checkpoint and another plan in place.
TEST_P(AfterAFailure, TheOthersGoOnFromACheckpoint) {
  TestJob what = job_of("mlp", {1, 6, 6}, true);
  const auto before = mixed_plan(what, {{2, 0}, {1, 0}, {1, 0}}, {}, 3);
  const auto failing = GetParam() == "data"
                           ? before
                           : mixed_plan(what, {}, {{.replicas = {1, 1, 1}, .workers = 4, .schedule = GetParam()}}, 3);
  const auto after = mixed_plan(what, {}, {{.replicas = {1, 1}, .workers = 4}}, 3);
  const Trained still = train_plan(what, mixed_plan(what, {{1, 3}}, {}, 3), 5);
  const auto store = comm::make_memory_store();
  std::latch saved(3);
  std::latch one_step(3);
  Checkpoint checkpoint;
  NamedTensors weights;
  in_threads(3, [&](int rank) {
    Rank own = make_rank(what, rank);
    ASSERT_TRUE(own.trainer->configure(before, join_ranks(*store, "before", rank, 3), devices(3)).ok());
    for (int step = 0; step < 2; ++step) EXPECT_TRUE(own.trainer->step().ok());
    const auto snapshot = own.trainer->snapshot();
    ASSERT_TRUE(snapshot.ok());
    if (rank == 0) {
      checkpoint.meta = snapshot->meta;
      checkpoint.weights = copy_of(snapshot->weights);
      checkpoint.optimizer = copy_of(snapshot->optimizer);
    }
    saved.arrive_and_wait();
    ASSERT_TRUE(own.trainer->configure(failing, join_ranks(*store, "failing", rank, 3), devices(3)).ok());
    EXPECT_TRUE(own.trainer->step().ok());
    one_step.arrive_and_wait();
    if (rank == 2) return;  // its group goes without a word
    base::Result<StepReport> report = own.trainer->step();
    while (report.ok() && !own.trainer->finished()) report = own.trainer->step();  // a stage may be ahead
    ASSERT_FALSE(report.ok());
    EXPECT_FALSE(own.trainer->at_rest());

    const auto nobody = own.trainer->configure(after, join_ranks(*store, "nobody", rank, 2), devices(2));
    ASSERT_FALSE(nobody.ok()) << "a state that is between two steps was taken";
    EXPECT_THAT(nobody.error().to_string(), HasSubstr("resume from a checkpoint"));

    // One rank that has a whole state is enough.
    if (rank == 1) {
      ASSERT_TRUE(own.trainer->restore(checkpoint, "saved").ok());
    }
    const auto configured = own.trainer->configure(after, join_ranks(*store, "after", rank, 2), devices(2));
    ASSERT_TRUE(configured.ok()) << configured.error().to_string();
    EXPECT_TRUE(own.trainer->at_rest());
    for (int step = 0; step < 3; ++step) {
      const auto done = own.trainer->step();
      ASSERT_TRUE(done.ok()) << done.error().to_string();
    }
    const auto last = own.trainer->snapshot();
    ASSERT_TRUE(last.ok()) << last.error().to_string();
    if (rank == 0) weights = copy_of(last->weights);
    EXPECT_TRUE(own.trainer->group().close().ok());
  });
  std::ranges::sort(weights, {}, [](const auto& named) { return named.first; });
  EXPECT_TRUE(same_bits(still.weights, weights)) << difference(still.weights, weights);
}

INSTANTIATE_TEST_SUITE_P(Pipeline, AfterAFailure, ::testing::Values("data", "1f1b-flush", "1f1b-stash"),
                         [](const auto& param) {
                           return param.param == "data"         ? "OfDataLanes"
                                  : param.param == "1f1b-flush" ? "OfAPipeline"
                                                                : "OfAPipelineThatRunsOn";
                         });

}  // namespace
}  // namespace yoke::engine::testing
