#include "yoke/plan/cost/measured_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "yoke/plan/cost/choose_cost.h"
#include "yoke/plan/solve/batch/batch.h"

namespace yoke::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

profile::ComputeSample sample(int vsw, double total, double round) {
  return {.vsw = vsw,
          .total_ms = total,
          .data_ms = 0,
          .forward_ms = round / 4,
          .backward_ms = 3 * round / 4,
          .update_ms = 8,
          .copy_ms = 0,
          .bn_sync_ms = 0,
          .round_ms = round};
}

/// Workers that share cores: two at once take twice as long as one.
profile::ProfileSet profiles() {
  profile::ProfileSet set{.model = "m",
                          .nodes = {{.node = "fast", .device_type = "cpu", .by_lbs = {}},
                                    {.node = "slow", .device_type = "cpu", .by_lbs = {}}},
                          .buckets = {{4, 4}},
                          .comm = {.intra = {}, .inter = {{0, 1}, {10, 11}}}};
  set.nodes[0].by_lbs[8] = {.max_vsw = 4, .total_memory = {}, .compute = {sample(1, 105, 100), sample(4, 410, 400)}};
  set.nodes[1].by_lbs[8] = {.max_vsw = 1, .total_memory = {}, .compute = {sample(1, 205, 200), sample(2, 405, 400)}};
  return set;
}

cluster::Cluster cluster_of(const std::string& type) {
  const base::Bandwidth bandwidth{1e9};
  return *cluster::Cluster::make({{.name = "fast", .type = type, .inter_bandwidth = bandwidth},
                                  {.name = "slow", .type = type, .inter_bandwidth = bandwidth}});
}

TEST(MeasuredModel, StepsAreWhatWasMeasured) {
  const auto model = MeasuredModel::make(cluster_of("cpu"), profiles());
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  EXPECT_THAT(model->node_classes(), ElementsAre(0, 1));
  EXPECT_THAT(model->local_batch_sizes(), ElementsAre(8));
  EXPECT_EQ(model->max_vsw(0, 8), 4);
  EXPECT_EQ(model->max_vsw(1, 8), 1) << "memory has the last word";
  EXPECT_EQ(model->max_vsw(0, 16), 0);
  // A lone device reduces nothing.
  const Extent alone{.devices = 1};
  EXPECT_NEAR(model->step_seconds(0, {8, 1, 0}, Sync::kOverlap, alone), 0.105, 1e-12);
  EXPECT_NEAR(model->step_seconds(0, {8, 1, 3}, Sync::kOverlap, alone), 0.405, 1e-12);
  EXPECT_NEAR(model->step_seconds(0, {8, 4, 0}, Sync::kOverlap, alone), 0.410, 1e-12);
  EXPECT_NEAR(model->step_seconds(0, {8, 2, 1}, Sync::kOverlap, alone), (0.105 * 2 + 0.410) / 3 + 0.2, 1e-12)
      << "between two measured numbers of workers";
  EXPECT_NEAR(model->step_seconds(0, {8, 1, 0}, Sync::kSequential, alone), 0.105, 1e-12)
      << "a processor that updates does nothing else: the step that was measured holds all of it";
}

TEST(MeasuredModel, ProcessorsMoveTheirBytesThemselves) {
  const Extent both{.devices = 2, .across_nodes = true};
  // 4 MiB in each bucket: ideally 4 * (2 - 1) / 2 * 4 MiB / 1 GB/s.
  const double reduce = (4.0 * 4 * 1024 * 1024 / 2 / 1e9 * 1000 + 1) / 1000;
  const auto processors = MeasuredModel::make(cluster_of("cpu"), profiles());
  ASSERT_TRUE(processors.ok());
  EXPECT_NEAR(processors->step_seconds(0, {8, 1, 0}, Sync::kOverlap, both), 0.105 + 2 * reduce, 1e-9);
  auto set = profiles();
  for (auto& node : set.nodes) node.device_type = "slow-cpu";
  const auto named = MeasuredModel::make(cluster_of("slow-cpu"), set);
  ASSERT_TRUE(named.ok());
  EXPECT_NEAR(named->step_seconds(0, {8, 1, 0}, Sync::kOverlap, both), 0.105 + 2 * reduce, 1e-9);
  for (auto& node : set.nodes) node.device_type = "gpu";
  const auto others = MeasuredModel::make(cluster_of("gpu"), set);
  ASSERT_TRUE(others.ok());
  EXPECT_NEAR(others->step_seconds(0, {8, 1, 0}, Sync::kOverlap, both), 0.105 + reduce, 1e-9)
      << "the first bucket is reduced during the backward pass";
  EXPECT_NEAR(others->step_seconds(0, {8, 1, 0}, Sync::kSequential, both), 0.108 + 2 * reduce, 1e-9);
}

TEST(MeasuredModel, PartsAddUpAndKeepTheContractOfCosts) {
  const auto model = MeasuredModel::make(cluster_of("cpu"), profiles());
  ASSERT_TRUE(model.ok());
  for (const Sync sync : {Sync::kOverlap, Sync::kSequential}) {
    for (int vsw = 1; vsw <= 4; ++vsw) {
      const Extent extent{.devices = 2, .across_nodes = true};
      const auto lane = model->lane(0, 8, vsw, sync, extent);
      EXPECT_GT(lane.first_round, 0);
      EXPECT_GE(lane.first_round, lane.further_round);
      EXPECT_EQ(lane.further_round, model->lane(0, 8, vsw, sync, {.devices = 1}).further_round);
      EXPECT_NEAR(model->parts(0, {8, vsw, 2}, sync, extent).total(), lane.seconds(2), 1e-12);
    }
  }
}

TEST(MeasuredModel, SolversDealByIt) {
  const auto model = MeasuredModel::make(cluster_of("cpu"), profiles());
  ASSERT_TRUE(model.ok());
  const auto solution = solve_batch(*model, {.gbs = 9 * 8});
  ASSERT_TRUE(solution.ok()) << solution.error().to_string();
  ASSERT_EQ(solution->lanes.size(), 2U);
  EXPECT_EQ(solution->lanes[0].vsw * (solution->lanes[0].ga + 1), 6) << "twice as fast, twice the work";
  EXPECT_EQ(solution->lanes[1].vsw * (solution->lanes[1].ga + 1), 3);
}

TEST(ChooseCost, TakesTheBestThatTheProfilesAllow) {
  auto set = profiles();
  EXPECT_EQ(choose_cost("auto", cluster_of("cpu"), set)->name, "measured");
  EXPECT_EQ(choose_cost("iidp", cluster_of("cpu"), set)->name, "iidp");
  set.nodes[1].by_lbs[8].compute[0].round_ms.reset();
  EXPECT_EQ(choose_cost("auto", cluster_of("cpu"), set)->name, "iidp");
  const auto refused = choose_cost("measured", cluster_of("cpu"), set);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("the profile of node slow lacks measured rounds"));
  const auto unknown = choose_cost("mesured", cluster_of("cpu"), set);
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().to_string(), HasSubstr("did you mean `measured`?"));
}

}  // namespace
}  // namespace yoke::plan
