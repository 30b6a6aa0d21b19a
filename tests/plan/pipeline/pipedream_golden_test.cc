// Every run of the original optimizer that the reference data records, against ours.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/plan/pipeline/graph_text.h"
#include "tests/support/paths.h"
#include "yoke/base/document.h"
#include "yoke/plan/solve/pipeline/pipedream.h"

namespace yoke::plan {
namespace {

const std::string kGolden = std::string(yoke::testing::kSharedData) + "/golden/pipedream.json";

PipedreamOptions options_of(base::View row) {
  PipedreamOptions options{.straight = row.field("straight_pipeline").boolean(),
                           .fewer = row.field("use_fewer_machines").boolean()};
  const auto machines = row.field("num_machines").items();
  const auto bandwidths = row.field("bandwidths").items();
  for (std::size_t l = 0; l < machines.size(); ++l) {
    base::View machine = machines[l];
    base::View bandwidth = bandwidths[l];
    options.levels.push_back({static_cast<int>(machine.integer()), bandwidth.number()});
  }
  if (row.field("use_memory_constraint").boolean()) options.memory_bytes = row.field("memory_size").number();
  if (auto ratio = row.find("activation_compression_ratio")) options.compression = ratio->number();
  return options;
}

void expect_same_plan(base::View row, const PipedreamResult& ours, const profile::LayerGraph& graph) {
  for (auto& [id, stage] : row.field("stage_ids").entries()) {
    int layer = 0;
    while (graph.layers()[static_cast<std::size_t>(layer)].id != id) ++layer;
    EXPECT_EQ(ours.stage_of[static_cast<std::size_t>(layer)], stage.integer()) << "stage of " << id;
  }
  for (base::View level : row.field("levels").items()) {
    const auto& groups = ours.levels[static_cast<std::size_t>(level.field("level").integer() - 1)];
    std::vector<PipedreamResult::Split> splits;
    for (const auto& group : groups) splits.insert(splits.end(), group.splits.begin(), group.splits.end());
    auto expected = level.field("splits").items();
    auto times = level.field("compute_times").items();
    auto replicas = level.field("replication_factors").items();
    ASSERT_EQ(splits.size(), expected.size());
    for (std::size_t s = 0; s < splits.size(); ++s) {
      auto ends = expected[s].items();
      EXPECT_EQ(splits[s], (PipedreamResult::Split{
                               .first = static_cast<int>(ends[0].integer()),
                               .end = static_cast<int>(ends[1].integer()),
                               .replicas = static_cast<int>(replicas[s].integer()),
                               .seconds = times[s].number(),
                           }));
    }
    auto expected_groups = level.field("groups").items();
    ASSERT_EQ(groups.size(), expected_groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      EXPECT_EQ(groups[g].seconds, expected_groups[g].field("cell_time").number());
      EXPECT_EQ(groups[g].machines_not_used, expected_groups[g].field("machines_not_used").integer());
    }
  }
}

TEST(PipedreamGolden, EveryRecordedRun) {
  if (!base::is_file(kGolden)) GTEST_SKIP() << "reference data not found: " << kGolden;
  const auto document = base::load_document(kGolden).value();
  base::Reader reader(document);
  std::map<std::string, profile::LayerGraph> graphs;
  int exact = 0;
  int compared = 0;
  int row_number = 0;
  for (base::View row : reader.root().items()) {
    const std::string profile = row.field("profile").text();
    SCOPED_TRACE("row " + std::to_string(row_number++) + ", profile " + profile);
    if (!graphs.contains(profile)) {
      graphs.emplace(profile, load_graph_text(std::string(yoke::testing::kSharedData) + "/pipedream/profiles/" +
                                              profile + ".txt"));
    }
    const auto& graph = graphs.at(profile);
    const auto ours = solve_pipedream(graph, options_of(row));
    if (row.has("error") || row.has("timeout")) {
      // The original crashed or did not finish: an answer, or a reason why there is none.
      EXPECT_TRUE(ours.ok() || ours.error().kind == base::ErrorKind::kInfeasible) << ours.error().to_string();
      continue;
    }
    ASSERT_TRUE(ours.ok()) << ours.error().to_string();
    EXPECT_EQ(ours->states, row.field("num_states").integer());
    EXPECT_TRUE(ours->reduction.empty());
    const double seconds = row.field("time_per_stage").number();
    const double data_parallel = row.field("data_parallel_time").number();
    const double single = row.field("single_time").number();
    if (row.field("order").text() == "canonical") {
      EXPECT_EQ(ours->seconds_per_minibatch, seconds);
      EXPECT_EQ(ours->data_parallel_seconds, data_parallel);
      EXPECT_EQ(ours->single_seconds, single);
      expect_same_plan(row, *ours, graph);
      ++exact;
    } else {
      EXPECT_NEAR(ours->seconds_per_minibatch, seconds, 1e-9 * seconds);
      EXPECT_NEAR(ours->data_parallel_seconds, data_parallel, 1e-9 * data_parallel);
      EXPECT_NEAR(ours->single_seconds, single, 1e-9 * single);
      ++compared;
    }
    ASSERT_TRUE(reader.ok()) << reader.error().to_string();
  }
  EXPECT_GT(exact, 200);
  EXPECT_GT(compared, 50);
}

}  // namespace
}  // namespace yoke::plan
