// The overlap solver against brute force: every chain of layer sets, every assignment of groups and replicas, with the
// cost model written down a second time from the layers, the edges and the single devices.
#include "yoke/plan/solve/pipeline/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "tests/plan/pipeline/graph_text.h"
#include "tests/plan/pipeline/random_graph.h"
#include "tests/support/paths.h"

namespace yoke::plan {
namespace {

using profile::LayerGraph;

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 1e-9;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

struct BruteStage {
  unsigned before = 0;  // layers of the earlier stages
  unsigned layers = 0;
  int group = 0;
  int replicas = 1;
};

class BruteForce {
 public:
  BruteForce(const LayerGraph& graph, const OverlapOptions& options) : graph_(graph), options_(options) {
    for (const auto& group : options.groups) free_.push_back(group.devices());
  }

  double best() {
    extend(0);
    return best_;
  }

  struct Times {
    double pace = kNone;  // the slowest stage
    double step = kNone;
    double aimed(const OverlapOptions& options) const {
      return options.aim == PipelineAim::kStep && options.schedule != PipelineSchedule::kStash ? step : pace;
    }
  };

  /// kNone when a device's memory is exceeded or a replica has nothing to do.
  Times evaluate(const std::vector<BruteStage>& stages) const {
    // Devices are handed out from the last stage backwards, from the last device of each group backwards.
    std::vector<int> next;
    for (const auto& group : options_.groups) next.push_back(group.devices());
    std::vector<std::set<std::pair<int, int>>> nodes(stages.size());  // (group, node) of every device of each stage
    int devices = 0;
    Times times{.pace = 0, .step = 0};
    double longest_extra = 0;
    for (std::size_t s = stages.size(); s-- > 0;) {
      const auto& stage = stages[s];
      for (int r = 0; r < stage.replicas; ++r) {
        const int device = --next[at(stage.group)];
        nodes[s].emplace(stage.group, device / group(stage).devices_per_node);
      }
      devices += stage.replicas;
      if (memory(stage, devices) > group(stage).memory_bytes.value_or(kNone)) return {};
      if (options_.schedule != PipelineSchedule::kStash && stage.replicas > options_.micro_batches) return {};
    }
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const auto& stage = stages[s];
      const double q = stage.replicas;
      double milliseconds = 0;
      double update_ms = 0;
      double parameters = 0;
      for_each_layer(stage.layers, [&](const profile::Layer& layer) {
        milliseconds += layer.forward_ms + layer.backward_ms;
        update_ms += layer.update_ms;
        parameters += layer.parameter_bytes;
      });
      const bool stash = options_.schedule == PipelineSchedule::kStash;
      const double batches = options_.micro_batches;
      const double share = stash ? 1 / q : std::ceil(batches / q) / batches;
      double all_reduce = 0;
      if (q > 1) all_reduce = 2 * (q - 1) / q * parameters / bandwidth(nodes[s], nodes[s]) / (stash ? q : batches);
      const double alone = milliseconds / 1000 / group(stage).speed;
      const double update = update_ms / 1000 / group(stage).speed / (stash ? q : batches);
      double input = 0;
      double output = 0;
      if (s > 0) input = 2 * crossing(stage.before) / bandwidth(nodes[s - 1], nodes[s]);
      if (s + 1 < stages.size()) {
        output = 2 * crossing(stage.before | stage.layers) / bandwidth(nodes[s], nodes[s + 1]);
      }
      const double seconds = std::max({alone * share + update, all_reduce, (input + output) * share});
      times.pace = std::max(times.pace, seconds);
      times.step += alone + input;
      longest_extra = std::max(longest_extra, seconds * batches - std::max(alone, input + output));
    }
    times.step += longest_extra;
    return times;
  }

 private:
  const DeviceGroup& group(const BruteStage& stage) const { return options_.groups[at(stage.group)]; }

  template <typename Visit>
  void for_each_layer(unsigned layers, Visit visit) const {
    for (int i = 0; i < graph_.size(); ++i) {
      if ((layers >> i & 1U) != 0) visit(graph_.layers()[at(i)]);
    }
  }

  bool closed(unsigned layers) const {
    return std::ranges::all_of(graph_.edges(), [&](const profile::Edge& edge) {
      return (layers >> edge.to & 1U) == 0 || (layers >> edge.from & 1U) != 0;
    });
  }

  double crossing(unsigned inside) const {
    unsigned senders = 0;
    for (const auto& edge : graph_.edges()) {
      if ((inside >> edge.from & 1U) != 0 && (inside >> edge.to & 1U) == 0) senders |= 1U << edge.from;
    }
    double bytes = 0;
    for_each_layer(senders, [&](const profile::Layer& layer) { bytes += layer.activation_bytes(); });
    return bytes;
  }

  double bandwidth(const std::set<std::pair<int, int>>& a, const std::set<std::pair<int, int>>& b) const {
    std::set<std::pair<int, int>> all = a;
    all.insert(b.begin(), b.end());
    if (all.size() == 1) return options_.groups[at(all.begin()->first)].intra_bytes_per_s;
    double least = kNone;
    for (const auto& [index, node] : all) least = std::min(least, options_.groups[at(index)].inter_bytes_per_s);
    return least;
  }

  double memory(const BruteStage& stage, int devices) const {
    double parameters = 0;
    double activations = crossing(stage.before);
    for_each_layer(stage.layers, [&](const profile::Layer& layer) {
      parameters += layer.parameter_bytes;
      activations += layer.activation_bytes();
    });
    const int q = stage.replicas;
    const int by_step = (options_.micro_batches + q - 1) / q;
    const int by_depth = (devices + q - 1) / q;
    int flying = by_depth;
    if (options_.schedule == PipelineSchedule::kGpipe) flying = by_step;
    if (options_.schedule == PipelineSchedule::kFlush) flying = std::min(by_step, by_depth);
    double held = parameters + parameters * options_.optimizer_copies;  // gradients, optimizer
    held += options_.schedule == PipelineSchedule::kStash ? parameters * flying : parameters;
    return held + activations * flying;
  }

  void extend(unsigned done) {
    const unsigned everything = (1U << graph_.size()) - 1;
    if (done == everything) {
      const bool all_used = std::ranges::all_of(free_, [](int count) { return count == 0; });
      if (all_used || options_.may_idle) best_ = std::min(best_, evaluate(stages_).aimed(options_));
      return;
    }
    for (unsigned end = done + 1; end <= everything; ++end) {
      if ((end & done) != done || !closed(end)) continue;
      for (std::size_t g = 0; g < free_.size(); ++g) {
        for (int q = 1; q <= free_[g]; ++q) {
          stages_.push_back({done, end & ~done, static_cast<int>(g), q});
          free_[g] -= q;
          extend(end);
          free_[g] += q;
          stages_.pop_back();
        }
      }
    }
  }

  const LayerGraph& graph_;
  const OverlapOptions& options_;
  std::vector<int> free_;
  std::vector<BruteStage> stages_;
  double best_ = kNone;
};

OverlapOptions random_options(Random& random) {
  OverlapOptions options{.schedule = static_cast<PipelineSchedule>(random.pick(0, 2)),
                         .aim = random.coin() ? PipelineAim::kPace : PipelineAim::kStep,
                         .micro_batches = random.pick(1, 6),
                         .optimizer_copies = random.pick(0, 2),
                         .may_idle = random.coin()};
  const int types = random.pick(1, 3);
  int devices = 4;
  for (int t = 0; t < types && devices > 0; ++t) {
    DeviceGroup group{.type = "type" + std::to_string(t), .speed = 0.25 * random.pick(1, 8)};
    group.devices_per_node = random.pick(1, std::min(2, devices));
    group.nodes = random.pick(1, devices / group.devices_per_node);
    if (random.coin()) group.memory_bytes = 1e6 * random.pick(60, 900);
    group.inter_bytes_per_s = 1e9 * random.pick(1, 10);
    group.intra_bytes_per_s = 1e9 * random.pick(1, 20);
    devices -= group.devices();
    options.groups.push_back(std::move(group));
  }
  return options;
}

/// Our plan in the terms of the brute force.
std::vector<BruteStage> as_brute(const OverlapResult& result) {
  std::vector<BruteStage> stages;
  unsigned before = 0;
  for (const auto& stage : result.stages) {
    unsigned layers = 0;
    for (const int layer : stage.layers) layers |= 1U << layer;
    stages.push_back({before, layers, stage.group, stage.replicas});
    before |= layers;
  }
  return stages;
}

TEST(Overlap, EqualsBruteForce) {
  int feasible = 0;
  int infeasible = 0;
  int split = 0;
  int idle = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const LayerGraph graph = random_graph(random, random.pick(1, 5), random.coin());
    const OverlapOptions options = random_options(random);
    BruteForce brute(graph, options);
    const double expected = brute.best();
    const auto ours = solve_overlap(graph, options);
    if (expected == kNone) {
      ASSERT_FALSE(ours.ok());
      EXPECT_EQ(ours.error().kind, base::ErrorKind::kInfeasible);
      ++infeasible;
      continue;
    }
    ASSERT_TRUE(ours.ok()) << ours.error().to_string();
    const bool step = options.aim == PipelineAim::kStep && options.schedule != PipelineSchedule::kStash;
    ASSERT_NEAR(step ? ours->step_seconds : ours->seconds_per_minibatch, expected, kTolerance * expected);
    EXPECT_TRUE(ours->proven);
    const auto promised = brute.evaluate(as_brute(*ours));
    ASSERT_NEAR(promised.pace, ours->seconds_per_minibatch, kTolerance * promised.pace);
    if (options.schedule != PipelineSchedule::kStash) {
      ASSERT_NEAR(promised.step, ours->step_seconds, kTolerance * promised.step);
    }
    double slowest = 0;
    for (const auto& stage : ours->stages) slowest = std::max(slowest, stage.seconds);
    EXPECT_DOUBLE_EQ(slowest, ours->seconds_per_minibatch);
    ++feasible;
    split += ours->stages.size() > 1 ? 1 : 0;
    idle += std::ranges::any_of(ours->idle_devices, [](int count) { return count > 0; }) ? 1 : 0;
  }
  // The instances are of all kinds.
  EXPECT_GT(feasible, 1500);
  EXPECT_GT(infeasible, 100);
  EXPECT_GT(split, 500);
  EXPECT_GT(idle, 100);
}

/// The bound from fewer states must not change the answer.
TEST(Overlap, LargerGraphsThanTheBoundNeeds) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const LayerGraph graph = random_graph(random, 90, true);
    OverlapOptions options = random_options(random);
    for (auto& group : options.groups) group.memory_bytes.reset();
    const auto ours = solve_overlap(graph, options);
    ASSERT_TRUE(ours.ok()) << ours.error().to_string();
    EXPECT_EQ(ours->states, 90);
    // A coarser choice of cuts can only be worse.
    options.state_limit = 30;
    const auto coarse = solve_overlap(graph, options);
    ASSERT_TRUE(coarse.ok()) << coarse.error().to_string();
    EXPECT_LE(ours->seconds_per_minibatch, coarse->seconds_per_minibatch);
    EXPECT_FALSE(coarse->reduction.empty());
  }
}

DeviceGroup group_of(std::string type, int devices, double speed) {
  return {.type = std::move(type),
          .devices_per_node = devices,
          .speed = speed,
          .intra_bytes_per_s = 1e10,
          .inter_bytes_per_s = 1e9};
}

TEST(Overlap, GivesTheFastTypeTheLongStage) {
  const auto result =
      solve_overlap(chain_graph({10, 10, 10, 10}), {.groups = {group_of("slow", 1, 1), group_of("fast", 1, 3)}});
  ASSERT_TRUE(result.ok());
  EXPECT_DOUBLE_EQ(result->seconds_per_minibatch, 0.010);
  EXPECT_DOUBLE_EQ(result->single_seconds, 0.040 / 3);
  EXPECT_DOUBLE_EQ(result->data_parallel_seconds, 0.020);
  ASSERT_EQ(result->stages.size(), 2U);
  const auto& fast = result->stages[result->stages[0].group == 1 ? 0 : 1];
  EXPECT_EQ(fast.layers.size(), 3U);
}

TEST(Overlap, LeavesASlowDeviceIdleOnlyWhenAllowed) {
  OverlapOptions options{.groups = {group_of("fast", 1, 10), group_of("slow", 1, 0.01)}};
  const auto all = solve_overlap(chain_graph({10, 10}), options);
  options.may_idle = true;
  const auto some = solve_overlap(chain_graph({10, 10}), options);
  ASSERT_TRUE(all.ok() && some.ok());
  EXPECT_DOUBLE_EQ(all->seconds_per_minibatch, 1.0);
  EXPECT_DOUBLE_EQ(some->seconds_per_minibatch, 0.002);
  EXPECT_EQ(some->idle_devices, (std::vector<int>{0, 1}));
}

/// Stages update at the same time, which is a reason of its own to cut.
LayerGraph without_updates(const LayerGraph& graph) {
  auto layers = graph.layers();
  for (auto& layer : layers) layer.update_ms = 0;
  return *LayerGraph::make(std::move(layers), graph.edges());
}

/// With one minibatch in a step there is nothing to overlap: a second stage only adds a transfer.
TEST(Overlap, AStepOfOneMinibatchIsNotCut) {
  OverlapOptions options{
      .groups = {group_of("a", 4, 1)}, .aim = PipelineAim::kStep, .micro_batches = 1, .may_idle = true};
  Random random(5);
  const LayerGraph graph = without_updates(random_graph(random, 6, true));
  const auto step = solve_overlap(graph, options);
  ASSERT_TRUE(step.ok()) << step.error().to_string();
  EXPECT_EQ(step->stages.size(), 1U);
  EXPECT_EQ(step->stages[0].replicas, 1) << "replicas beyond the minibatches of a step are no use";
  EXPECT_DOUBLE_EQ(step->step_seconds, step->single_seconds);
  options.aim = PipelineAim::kPace;
  const auto pace = solve_overlap(graph, options);
  ASSERT_TRUE(pace.ok());
  EXPECT_LT(pace->seconds_per_minibatch, step->seconds_per_minibatch) << "what a full pipeline would do";
  EXPECT_GT(pace->step_seconds, step->step_seconds);
}

TEST(Overlap, ReplicasNeverOutnumberTheMinibatchesOfAStep) {
  OverlapOptions options{.groups = {group_of("a", 6, 1)}, .micro_batches = 4};
  const auto one_layer = solve_overlap(chain_graph({10}), options);
  ASSERT_FALSE(one_layer.ok());
  EXPECT_EQ(one_layer.error().kind, base::ErrorKind::kInfeasible);
  EXPECT_NE(one_layer.error().message.find("4 micro-batches keep no more replicas"), std::string::npos);
  options.may_idle = true;
  const auto some_idle = solve_overlap(chain_graph({10}), options);
  ASSERT_TRUE(some_idle.ok());
  EXPECT_EQ(some_idle->stages[0].replicas, 4);
  EXPECT_EQ(some_idle->idle_devices, std::vector<int>{2});
  options.may_idle = false;
  options.schedule = PipelineSchedule::kStash;  // never drained: any number is kept busy
  const auto stash = solve_overlap(chain_graph({10}), options);
  ASSERT_TRUE(stash.ok());
  EXPECT_EQ(stash->stages[0].replicas, 6);
}

TEST(Overlap, MemoryHoldsWeightsGradientsAndOptimizerState) {
  std::vector<profile::Layer> layers{{.id = "l0",
                                      .description = "Layer",
                                      .forward_ms = 1,
                                      .backward_ms = 1,
                                      .output_bytes = {10},
                                      .parameter_bytes = 100}};
  const LayerGraph graph = LayerGraph::make(std::move(layers), {}).value();
  OverlapOptions options{.groups = {group_of("a", 1, 1)}, .optimizer_copies = 2};
  options.groups[0].memory_bytes = 410;  // weights, gradient, two of Adam's, one minibatch in flight
  const auto fits = solve_overlap(graph, options);
  ASSERT_TRUE(fits.ok()) << fits.error().to_string();
  EXPECT_DOUBLE_EQ(fits->stages[0].memory_bytes, 410);
  options.groups[0].memory_bytes = 409;
  EXPECT_FALSE(solve_overlap(graph, options).ok());
  options.optimizer_copies = 1;
  EXPECT_TRUE(solve_overlap(graph, options).ok());
  options.schedule = PipelineSchedule::kGpipe;  // eight in flight
  options.groups[0].memory_bytes = 380;
  ASSERT_TRUE(solve_overlap(graph, options).ok());
  EXPECT_DOUBLE_EQ(solve_overlap(graph, options)->stages[0].memory_bytes, 380);
}

TEST(Overlap, SamePlanEveryTime) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const LayerGraph graph = random_graph(random, 8, random.coin());
    const OverlapOptions options = random_options(random);
    const auto one = solve_overlap(graph, options);
    const auto two = solve_overlap(graph, options);
    ASSERT_EQ(one.ok(), two.ok());
    if (!one.ok()) continue;
    EXPECT_EQ(one->stage_of, two->stage_of);
  }
}

TEST(Overlap, TiesGoToFewerDevicesThenTheFirstGroup) {
  // Two equal layers of equal groups: either order is as good.
  const auto order = solve_overlap(chain_graph({10, 10}), {.groups = {group_of("a", 1, 1), group_of("b", 1, 1)}});
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(order->stages[0].group, 0);
  const auto fewest =
      solve_overlap(chain_graph({10}), {.groups = {group_of("a", 4, 1)}, .micro_batches = 5, .may_idle = true});
  ASSERT_TRUE(fewest.ok());
  EXPECT_EQ(fewest->stages[0].replicas, 3) << "four replicas need two rounds for five as three do";
}

TEST(Overlap, SaysWhichLimitBinds) {
  const auto devices = solve_overlap(chain_graph({10}), {.groups = {group_of("a", 1, 1), group_of("b", 1, 1)}});
  ASSERT_FALSE(devices.ok());
  EXPECT_EQ(devices.error().kind, base::ErrorKind::kInfeasible);
  EXPECT_TRUE(devices.error().message.starts_with("devices:")) << devices.error().message;

  Random random(1);
  OverlapOptions options{.groups = {group_of("a", 2, 1)}};
  options.groups[0].memory_bytes = 10;
  const auto memory = solve_overlap(random_graph(random, 5, true), options);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().kind, base::ErrorKind::kInfeasible);
  EXPECT_TRUE(memory.error().message.starts_with("memory:")) << memory.error().message;
}

TEST(Overlap, RefusesBadOptions) {
  const LayerGraph graph = chain_graph({1, 2});
  const auto refused = [&](const OverlapOptions& options) {
    const auto result = solve_overlap(graph, options);
    return !result.ok() && result.error().kind == base::ErrorKind::kInput;
  };
  EXPECT_TRUE(refused({}));
  OverlapOptions options{.groups = {group_of("a", 2, 1)}};
  EXPECT_FALSE(refused(options));
  const auto with = [&](auto change) {
    OverlapOptions changed = options;
    change(changed);
    return refused(changed);
  };
  EXPECT_TRUE(with([](OverlapOptions& o) { o.groups[0].speed = 0; }));
  EXPECT_TRUE(with([](OverlapOptions& o) { o.groups[0].intra_bytes_per_s = 0; }));
  EXPECT_TRUE(with([](OverlapOptions& o) { o.groups[0].nodes = 0; }));
  EXPECT_TRUE(with([](OverlapOptions& o) { o.groups[0].nodes = 2, o.groups[0].inter_bytes_per_s = 0; }));
  EXPECT_TRUE(with([](OverlapOptions& o) { o.groups[0].memory_bytes = -1; }));
  EXPECT_TRUE(with([](OverlapOptions& o) { o.micro_batches = 0; }));
  EXPECT_TRUE(with([](OverlapOptions& o) { o.optimizer_copies = -1; }));
  EXPECT_TRUE(with([](OverlapOptions& o) { o.groups[0].devices_per_node = 1 << 30; }));
  EXPECT_TRUE(with([](OverlapOptions& o) { o.groups.resize(12, o.groups[0]); }));
}

TEST(Overlap, BranchyNetworksNeedNoPreparation) {
  const std::string folder = std::string(yoke::testing::kSharedData) + "/pipedream/profiles/";
  if (!base::is_folder(folder)) GTEST_SKIP() << "reference data not found: " << folder;
  const OverlapOptions options{.groups = {group_of("fast", 8, 1), group_of("slow", 8, 0.5)}};
  for (const std::string name : {"inception_v3", "nasnetalarge", "nasnetamobile"}) {
    SCOPED_TRACE(name);
    const auto result = solve_overlap(load_graph_text(folder + name + ".txt"), options);
    ASSERT_TRUE(result.ok()) << result.error().to_string();
    EXPECT_FALSE(result->reduction.empty());
    // 8 + 8/2 devices of the fast kind, kept busy to within a tenth.
    EXPECT_LT(result->seconds_per_minibatch, 1.1 * result->single_seconds / 12);
  }
}

/// Three unlike types whose memory leaves hardly any plan: the search ends, and says so if it ends early.
TEST(Overlap, TightMemoryOnThreeTypes) {
  Random random(7);
  const LayerGraph graph = random_graph(random, 60, true);
  OverlapOptions options{.groups = {group_of("a", 4, 1), group_of("b", 4, 0.5), group_of("c", 4, 0.25)}};
  double parameters = 0;
  for (const auto& layer : graph.layers()) parameters += layer.parameter_bytes;
  for (auto& group : options.groups) group.memory_bytes = 0.8 * parameters;
  const auto result = solve_overlap(graph, options);
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  for (const auto& stage : result->stages) EXPECT_LE(stage.memory_bytes, 0.8 * parameters);
}

TEST(Overlap, ThousandDevices) {
  const auto result = solve_overlap(chain_graph(std::vector<double>(40, 5)),
                                    {.groups = {group_of("a", 1000, 1)}, .micro_batches = 1000});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  EXPECT_DOUBLE_EQ(result->seconds_per_minibatch, 0.0002);
}

}  // namespace
}  // namespace yoke::plan
