#include "yoke/plan/solve/pipeline/cut_states.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/plan/pipeline/graph_text.h"
#include "tests/plan/pipeline/random_graph.h"
#include "tests/support/paths.h"

namespace yoke::plan {
namespace {

using profile::Edge;
using profile::Layer;
using profile::LayerGraph;

constexpr int kNoLimit = 1 << 20;

LayerGraph graph_of(const std::vector<std::string>& descriptions, const std::vector<Edge>& edges) {
  std::vector<Layer> layers;
  for (const auto& description : descriptions) {
    const auto number = static_cast<double>(layers.size() + 1);
    layers.push_back({.id = "n" + std::to_string(layers.size()),
                      .description = description,
                      .forward_ms = number * 1000,
                      .output_bytes = {number},
                      .parameter_bytes = 10 * number});
  }
  return LayerGraph::make(layers, edges).value();
}

unsigned layers_of(const CutStates& states, int state) {
  unsigned mask = 0;
  for_each_bit(states.layers.row(state), [&](int layer) { mask |= 1U << layer; });
  return mask;
}

bool closed(const LayerGraph& graph, ConstBits layers) {
  return std::ranges::all_of(graph.edges(),
                             [&](const Edge& edge) { return !test(layers, edge.to) || test(layers, edge.from); });
}

TEST(CutStates, DiamondInTheOrderOfTheOriginal) {
  const LayerGraph graph = graph_of({"a", "b", "c", "d"}, {{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  const CutStates states = enumerate_cut_states(graph, kNoLimit).value();
  // Of two moves the later one gets the smaller number.
  ASSERT_EQ(states.count, 5);
  EXPECT_EQ(layers_of(states, 0), 0b0001U);
  EXPECT_EQ(layers_of(states, 1), 0b0101U);
  EXPECT_EQ(layers_of(states, 2), 0b0011U);
  EXPECT_EQ(layers_of(states, 3), 0b0111U);
  EXPECT_EQ(layers_of(states, 4), 0b1111U);
  EXPECT_EQ(states.seconds, (std::vector<double>{1, 4, 3, 6, 10}));
  EXPECT_EQ(states.parameter_bytes, (std::vector<double>{10, 40, 30, 60, 100}));
  // The state {a, b, c}: a is needed by nobody outside, but the original counts it.
  EXPECT_EQ(states.crossing_bytes, (std::vector<double>{1, 4, 3, 5, 0}));
  EXPECT_EQ(states.augmented_bytes, (std::vector<double>{1, 4, 3, 6, 4}));
  EXPECT_TRUE(test(states.successors.row(0), 4));
  EXPECT_FALSE(test(states.successors.row(1), 2));
}

TEST(CutStates, AreAllClosedSetsOfAGraphWithOneSource) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const LayerGraph graph = random_graph(random, random.pick(1, 9), false);
    const CutStates states = enumerate_cut_states(graph, kNoLimit).value();
    std::set<unsigned> ours;
    for (int j = 0; j < states.count; ++j) ours.insert(layers_of(states, j));
    std::set<unsigned> expected;
    for (unsigned mask = 1; mask < 1U << graph.size(); mask += 2) {
      const bool is_closed = std::ranges::all_of(graph.edges(), [&](const Edge& edge) {
        return (mask >> edge.to & 1U) == 0 || (mask >> edge.from & 1U) != 0;
      });
      if (is_closed) expected.insert(mask);
    }
    ASSERT_EQ(ours, expected);
    for (int j = 0; j < states.count; ++j) {
      for (int k = 0; k < states.count; ++k) {
        const bool inside = j != k && (layers_of(states, j) & ~layers_of(states, k)) == 0;
        ASSERT_EQ(test(states.successors.row(j), k), inside);
        ASSERT_TRUE(!inside || j < k);
      }
    }
  }
}

TEST(CutStates, SetsInputsAndTrailingItemsAside) {
  const LayerGraph graph = graph_of({"Input0", "a", "__getitem__(0)", "b", "Input1"}, {{0, 1}, {1, 2}, {1, 3}, {4, 3}});
  const CutStates states = enumerate_cut_states(graph, kNoLimit).value();
  ASSERT_EQ(states.count, 2);
  EXPECT_EQ(layers_of(states, 1), 0b01010U);
  EXPECT_EQ(stage_of_layers(graph, states, {0, 1}), (std::vector<int>{0, 0, 0, 1, 0}));
}

TEST(CutStates, OneLayerIsOneState) {
  EXPECT_EQ(enumerate_cut_states(graph_of({"a"}, {}), kNoLimit)->count, 1);
}

TEST(CutStates, RefusesWhatCannotBeCut) {
  const auto inputs = enumerate_cut_states(graph_of({"Input0", "Input1"}, {}), kNoLimit);
  ASSERT_FALSE(inputs.ok());
  EXPECT_EQ(inputs.error().kind, base::ErrorKind::kInput);
  const auto apart = enumerate_cut_states(graph_of({"a", "b", "c"}, {{0, 1}}), kNoLimit);
  ASSERT_FALSE(apart.ok());
  EXPECT_NE(apart.error().message.find("n2"), std::string::npos) << apart.error().message;
  auto layers = chain_graph({1, 1}).layers();
  for (auto& layer : layers) layer.parameter_bytes = 1e308;
  EXPECT_FALSE(enumerate_cut_states(LayerGraph::make(layers, {{0, 1}}).value(), kNoLimit).ok());
}

TEST(CutStates, ReducedStatesAreStatesOfTheGraphWithTheSameCosts) {
  std::set<Reduction::Kind> seen;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const LayerGraph graph = random_graph(random, random.pick(4, 12), false);
    const CutStates full = enumerate_cut_states(graph, kNoLimit).value();
    const int limit = random.pick(1, full.count);
    const CutStates reduced = enumerate_cut_states(graph, limit).value();
    ASSERT_LE(reduced.count, limit);
    EXPECT_EQ(reduced.reduction.empty(), limit == full.count);
    EXPECT_EQ(reduced.reduction.describe().empty(), limit == full.count);
    std::multiset<int> named;
    for (const auto& group : reduced.reduction.groups) named.insert(group.begin(), group.end());
    EXPECT_EQ(named.size(), std::set<int>(named.begin(), named.end()).size());
    seen.insert(reduced.reduction.kind);
    for (int j = 0; j < reduced.count; ++j) {
      ASSERT_TRUE(closed(graph, reduced.layers.row(j)));
      int same = 0;
      while (layers_of(full, same) != layers_of(reduced, j)) ++same;
      const auto s = static_cast<std::size_t>(same);
      const auto r = static_cast<std::size_t>(j);
      EXPECT_EQ(reduced.seconds[r], full.seconds[s]);
      EXPECT_EQ(reduced.crossing_bytes[r], full.crossing_bytes[s]);
      EXPECT_EQ(reduced.augmented_bytes[r], full.augmented_bytes[s]);
    }
    EXPECT_EQ(layers_of(reduced, reduced.count - 1), layers_of(full, full.count - 1));
  }
  EXPECT_EQ(seen.size(), 4U) << "not every kind of reduction was met";
}

TEST(CutStates, BranchyNetworksAreReducedToTheLimit) {
  const std::string folder = std::string(yoke::testing::kSharedData) + "/pipedream/profiles/";
  if (!base::is_folder(folder)) GTEST_SKIP() << "reference data not found: " << folder;
  for (const char* name : {"inception_v3", "nasnetalarge", "nasnetamobile"}) {
    SCOPED_TRACE(name);
    const LayerGraph graph = load_graph_text(folder + name + ".txt");
    const CutStates states = enumerate_cut_states(graph, 2000).value();
    EXPECT_LE(states.count, 2000);
    EXPECT_GT(states.count, 500);
    EXPECT_FALSE(states.reduction.empty());
  }
}

}  // namespace
}  // namespace yoke::plan
