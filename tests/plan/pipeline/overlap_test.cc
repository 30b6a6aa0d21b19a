// The overlap solver against brute force: every chain of layer sets, every assignment of groups and replicas, with the
// cost model written down a second time from the layers, the edges and the single devices.
#include "yoke/plan/solve/pipeline/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "tests/plan/pipeline/graph_text.h"
#include "tests/plan/pipeline/random_graph.h"

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

  /// The slowest stage; kNone when a device's memory is exceeded.
  double evaluate(const std::vector<BruteStage>& stages) const {
    // Devices are handed out from the last stage backwards, from the last device of each group backwards.
    std::vector<int> next;
    for (const auto& group : options_.groups) next.push_back(group.devices());
    std::vector<std::set<std::pair<int, int>>> nodes(stages.size());  // (group, node) of every device of each stage
    int devices = 0;
    double slowest = 0;
    for (std::size_t s = stages.size(); s-- > 0;) {
      const auto& stage = stages[s];
      for (int r = 0; r < stage.replicas; ++r) {
        const int device = --next[at(stage.group)];
        nodes[s].emplace(stage.group, device / group(stage).devices_per_node);
      }
      devices += stage.replicas;
      if (memory(stage, devices) > group(stage).memory_bytes.value_or(kNone)) return kNone;
    }
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const auto& stage = stages[s];
      const double q = stage.replicas;
      double milliseconds = 0;
      double parameters = 0;
      for_each_layer(stage.layers, [&](const profile::Layer& layer) {
        milliseconds += layer.forward_ms + layer.backward_ms;
        parameters += layer.parameter_bytes;
      });
      const double share = options_.schedule == PipelineSchedule::kStash ? q : options_.micro_batches;
      const double all_reduce = q == 1 ? 0 : 2 * (q - 1) / q * parameters / bandwidth(nodes[s], nodes[s]) / share;
      double transfers = 0;
      if (s > 0) transfers += 2 * crossing(stage.before) / bandwidth(nodes[s - 1], nodes[s]) / q;
      if (s + 1 < stages.size()) {
        transfers += 2 * crossing(stage.before | stage.layers) / bandwidth(nodes[s], nodes[s + 1]) / q;
      }
      slowest = std::max({slowest, milliseconds / 1000 / group(stage).speed / q, all_reduce, transfers});
    }
    return slowest;
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
    if (options_.schedule == PipelineSchedule::kGpipe) return parameters + activations * by_step;
    if (options_.schedule == PipelineSchedule::kFlush) return parameters + activations * std::min(by_step, by_depth);
    return (parameters + activations) * by_depth;
  }

  void extend(unsigned done) {
    const unsigned everything = (1U << graph_.size()) - 1;
    if (done == everything) {
      const bool all_used = std::ranges::all_of(free_, [](int count) { return count == 0; });
      if (all_used || options_.may_idle) best_ = std::min(best_, evaluate(stages_));
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
                         .micro_batches = random.pick(1, 6),
                         .may_idle = random.coin()};
  const int types = random.pick(1, 3);
  int devices = 4;
  for (int t = 0; t < types && devices > 0; ++t) {
    DeviceGroup group{.type = "type" + std::to_string(t), .speed = 0.25 * random.pick(1, 8)};
    group.devices_per_node = random.pick(1, std::min(2, devices));
    group.nodes = random.pick(1, devices / group.devices_per_node);
    if (random.coin()) group.memory_bytes = 1e6 * random.pick(20, 400);
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
    ASSERT_NEAR(ours->seconds_per_minibatch, expected, kTolerance * expected);
    ASSERT_NEAR(brute.evaluate(as_brute(*ours)), expected, kTolerance * expected)
        << "the plan does not keep its promise";
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
  EXPECT_TRUE(with([](OverlapOptions& o) { o.groups[0].devices_per_node = 1 << 30; }));
  EXPECT_TRUE(with([](OverlapOptions& o) { o.groups.resize(12, o.groups[0]); }));
}

TEST(Overlap, BranchyNetworksNeedNoPreparation) {
  const std::string folder = std::string(YOKE_SHARED_DATA) + "/pipedream/profiles/";
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

TEST(Overlap, ThousandDevices) {
  const auto result = solve_overlap(chain_graph(std::vector<double>(40, 5)), {.groups = {group_of("a", 1000, 1)}});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  EXPECT_DOUBLE_EQ(result->seconds_per_minibatch, 0.0002);
}

}  // namespace
}  // namespace yoke::plan
