// PipeDream's dynamic program against a plain transcription of its rules, and its answers to unusual input.
#include "yoke/plan/solve/pipeline/pipedream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/plan/pipeline/graph_text.h"
#include "tests/plan/pipeline/pipedream_rules.h"
#include "tests/plan/pipeline/random_graph.h"
#include "tests/support/paths.h"

namespace yoke::plan {
namespace {

using profile::LayerGraph;

TEST(Pipedream, EqualsItsRulesOnRandomGraphs) {
  int infeasible = 0;
  int split = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const LayerGraph graph = random_graph(random, random.pick(1, 8), random.coin());
    PipedreamOptions options{.straight = random.pick(0, 3) == 0, .fewer = random.coin()};
    const int levels = random.pick(1, 3);
    for (int l = 0; l < levels; ++l) options.levels.push_back({random.pick(1, 4), 1e9 * random.pick(1, 10)});
    if (random.coin()) options.compression = random.pick(1, 2);
    if (random.coin()) options.memory_bytes = 1e6 * random.pick(0, 500);
    options.threads = random.pick(0, 3);
    const CutStates states = enumerate_cut_states(graph, 1 << 20).value();
    const double expected = PipedreamRules(states, options).answer();
    const auto ours = solve_pipedream(graph, options);
    if (std::isinf(expected)) {
      ASSERT_FALSE(ours.ok());
      EXPECT_EQ(ours.error().kind, base::ErrorKind::kInfeasible);
      ++infeasible;
      continue;
    }
    ASSERT_TRUE(ours.ok()) << ours.error().to_string();
    ASSERT_EQ(ours->seconds_per_minibatch, expected);
    EXPECT_LT(std::ranges::max(ours->stage_of), static_cast<int>(ours->stages.size()));
    split += ours->stages.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(infeasible, 100);
  EXPECT_GT(split, 300);
}

TEST(Pipedream, SameAnswerOnAnyNumberOfThreads) {
  Random random(3);
  const LayerGraph graph = random_graph(random, 150, true);
  PipedreamOptions options{.levels = {{4, 1e10}, {3, 1e9}}, .compression = 1.0, .threads = 1};
  const auto one = solve_pipedream(graph, options);
  options.threads = 5;
  const auto five = solve_pipedream(graph, options);
  ASSERT_TRUE(one.ok() && five.ok());
  EXPECT_EQ(one->seconds_per_minibatch, five->seconds_per_minibatch);
  EXPECT_EQ(one->stage_of, five->stage_of);
}

TEST(Pipedream, OneLayer) {
  const auto alone = solve_pipedream(chain_graph({10}), {.levels = {{1, 1e9}}});
  ASSERT_TRUE(alone.ok());
  EXPECT_DOUBLE_EQ(alone->seconds_per_minibatch, 0.01);
  const auto shared = solve_pipedream(chain_graph({10}), {.levels = {{2, 1e9}, {2, 1e9}}});
  ASSERT_TRUE(shared.ok());
  EXPECT_DOUBLE_EQ(shared->seconds_per_minibatch, 0.0025);
  ASSERT_EQ(shared->stages.size(), 1U);
  EXPECT_EQ(shared->stages[0].replicas, 4);
  const auto straight = solve_pipedream(chain_graph({10}), {.levels = {{2, 1e9}}, .straight = true});
  ASSERT_FALSE(straight.ok());
  EXPECT_EQ(straight.error().kind, base::ErrorKind::kInfeasible);
}

TEST(Pipedream, ThousandMachines) {
  const auto result = solve_pipedream(chain_graph(std::vector<double>(30, 5)), {.levels = {{1000, 1e9}}});
  ASSERT_TRUE(result.ok());
  EXPECT_NEAR(result->seconds_per_minibatch, 0.15 / 1000, 1e-12);
}

TEST(Pipedream, RefusesBadOptions) {
  const LayerGraph graph = chain_graph({1, 2});
  const auto refused = [&](const PipedreamOptions& options) {
    const auto result = solve_pipedream(graph, options);
    return !result.ok() && result.error().kind == base::ErrorKind::kInput;
  };
  EXPECT_TRUE(refused({}));
  EXPECT_FALSE(refused({.levels = {{2, 1e9}}}));
  EXPECT_TRUE(refused({.levels = {{0, 1e9}}}));
  EXPECT_TRUE(refused({.levels = {{2, 0}}}));
  EXPECT_TRUE(refused({.levels = {{2, std::nan("")}}}));
  EXPECT_TRUE(refused({.levels = {{1 << 30, 1e9}}}));
  EXPECT_TRUE(refused({.levels = {{2, 1e9}}, .memory_bytes = -1.0}));
  EXPECT_TRUE(refused({.levels = {{2, 1e9}}, .compression = 0.0}));
}

TEST(Pipedream, BranchyNetworksNeedNoPreparation) {
  const std::string folder = std::string(yoke::testing::kSharedData) + "/pipedream/profiles/";
  if (!base::is_folder(folder)) GTEST_SKIP() << "reference data not found: " << folder;
  for (const std::string name : {"inception_v3", "nasnetalarge", "nasnetamobile"}) {
    SCOPED_TRACE(name);
    const LayerGraph direct = load_graph_text(folder + name + ".txt");
    const LayerGraph compressed = load_graph_text(folder + name + "_compressed.txt");
    const PipedreamOptions options{.levels = {{4, 1e9}}, .compression = 1.0};
    const auto ours = solve_pipedream(direct, options);
    const auto theirs = solve_pipedream(compressed, options);
    ASSERT_TRUE(ours.ok() && theirs.ok());
    EXPECT_FALSE(ours->reduction.empty());
    EXPECT_EQ(ours->stage_of.size(), static_cast<std::size_t>(direct.size()));
    EXPECT_LE(ours->seconds_per_minibatch, 1.02 * theirs->seconds_per_minibatch);
  }
}

}  // namespace
}  // namespace yoke::plan
