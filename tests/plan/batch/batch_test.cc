#include "yoke/plan/solve/batch/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/batch/small_model.h"

namespace yoke::plan {
namespace {

using ::testing::HasSubstr;
using testing::Small;

base::Error error_of(const IidpModel& model, const BatchRequest& request) {
  const auto solution = solve_batch(model, request);
  EXPECT_FALSE(solution.ok());
  return solution.ok() ? base::Error{} : solution.error();
}

TEST(SolveBatch, NamesTheDevicesWhenTheBatchIsTooSmall) {
  const base::Error error = error_of(*Small{}.model(2), {.gbs = 16});
  EXPECT_EQ(error.kind, base::ErrorKind::kInfeasible);
  EXPECT_THAT(error.message, HasSubstr("each of the 4 devices needs a worker"));
  EXPECT_THAT(error.message, HasSubstr("the smallest batch size with a solution is 32"));
}

TEST(SolveBatch, NamesTheLocalBatchSizeWhenItDoesNotDivide) {
  const base::Error error = error_of(*Small{}.model(2), {.gbs = 50});
  EXPECT_EQ(error.kind, base::ErrorKind::kInfeasible);
  EXPECT_THAT(error.message, HasSubstr("no multiple of a local batch size that runs here (8)"));
  EXPECT_THAT(error.message, HasSubstr("48 and 56"));
}

TEST(SolveBatch, NamesTheUnitWhenItForbidsTheTotal) {
  const base::Error error = error_of(*Small{}.model(2), {.gbs = 56, .unit = 2});
  EXPECT_EQ(error.kind, base::ErrorKind::kInfeasible);
  EXPECT_THAT(error.message, HasSubstr("units of 2 devices"));
  EXPECT_THAT(error.message, HasSubstr("48 and 64"));
}

TEST(SolveBatch, NamesTheNodeThatFitsNoWorker) {
  Small small;
  profile::NodeProfile other = small.profiles.nodes[0];
  other.node = "b";
  other.by_lbs[8].compute.clear();
  other.by_lbs[4] = small.profiles.nodes[0].by_lbs[8];
  small.profiles.nodes.push_back(other);
  const auto model = small.model(2);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  const base::Error error = error_of(*model, {.gbs = 64, .lbs = 8});
  EXPECT_EQ(error.kind, base::ErrorKind::kInfeasible);
  EXPECT_THAT(error.message, HasSubstr("node b (gpu) runs no worker of local batch size 8"));
  // Left idle, it is no obstacle.
  const auto solution = solve_batch(*model, {.gbs = 64, .lbs = 8, .idle_unit = 2});
  ASSERT_TRUE(solution.ok()) << solution.error().to_string();
  EXPECT_EQ(solution->extent.devices, 2);
}

TEST(SolveBatch, RefusesBadRequests) {
  const auto model = Small{}.model(2);
  for (const BatchRequest& request : {BatchRequest{.gbs = 0}, BatchRequest{.gbs = 32, .lbs = 7},
                                      BatchRequest{.gbs = 32, .servers = {"c"}}, BatchRequest{.gbs = 32, .unit = 0},
                                      BatchRequest{.gbs = 32, .idle_unit = 0}, BatchRequest{.gbs = 2'000'000'000}}) {
    EXPECT_EQ(error_of(*model, request).kind, base::ErrorKind::kInput);
  }
  EXPECT_THAT(error_of(*model, {.gbs = 32, .lbs = 7}).message, HasSubstr("8"));
}

TEST(SolveBatch, RunsOneDevice) {
  Small small;
  small.node.devices = 1;
  const auto solution = solve_batch(*small.model(1), {.gbs = 24});
  ASSERT_TRUE(solution.ok()) << solution.error().to_string();
  ASSERT_EQ(solution->lanes.size(), 1U);
  EXPECT_EQ(solution->lanes[0].vsw * (solution->lanes[0].ga + 1), 3);
  EXPECT_EQ(solution->lanes[0].share, 1);
}

TEST(SolveBatch, DealsOddTotalsOverUnequalNodes) {
  Small small;
  std::vector<cluster::Node> nodes{small.node, small.node};
  nodes[0].devices = 3;
  nodes[1].name = "b";
  const auto model = IidpModel::make(cluster::Cluster::make(nodes).value(), small.profiles);
  const auto solution = solve_batch(*model, {.gbs = 8 * 11});
  ASSERT_TRUE(solution.ok()) << solution.error().to_string();
  int workers = 0;
  for (const NodeLane& lane : solution->lanes) workers += lane.devices * lane.vsw * (lane.ga + 1);
  EXPECT_EQ(workers, 11);
  // 11 over 5 devices: the slowest has 3 workers, not the 4 that a rounded-up equal share of two at once would be.
  const auto split = solution->equal_split;
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->gbs, 80);  // 11 workers do not split equally; 10 are the nearest that do
  EXPECT_EQ(split->workers_per_device, 2);
}

TEST(SolveBatch, SaysWhatLimitsALane) {
  Small small;
  const auto model = small.model(2);
  EXPECT_EQ(solve_batch(*model, {.gbs = 32})->lanes[0].limit, LaneLimit::kCompute);
  EXPECT_EQ(solve_batch(*model, {.gbs = 8 * 4 * 8})->lanes[0].limit, LaneLimit::kMemory);
  for (auto& point : small.profiles.comm.inter) point.measured_ms += 500;
  EXPECT_EQ(solve_batch(*small.model(2), {.gbs = 32})->lanes[0].limit, LaneLimit::kAllReduce);
}

TEST(SolveBatch, LeavesDevicesIdleOnlyWhenThatIsFaster) {
  Small small;
  for (auto& point : small.profiles.comm.inter) point.measured_ms += 500;
  const auto model = small.model(4);
  const auto all = solve_batch(*model, {.gbs = 64});
  const auto some = solve_batch(*model, {.gbs = 64, .idle_unit = 1});
  ASSERT_TRUE(all.ok() && some.ok());
  EXPECT_EQ(all->extent.devices, 8);
  EXPECT_EQ(some->extent.devices, 2);  // one node: no slow link
  EXPECT_LT(some->step_seconds, all->step_seconds);
}

TEST(SolveBatch, HandlesThousandsOfDevices) {
  Small small;
  std::vector<cluster::Node> nodes(3000, small.node);
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].name = "n" + std::to_string(i);
  const auto model = IidpModel::make(cluster::Cluster::make(nodes).value(), small.profiles);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  const auto solution = solve_batch(*model, {.gbs = 8 * 20'001});
  ASSERT_TRUE(solution.ok()) << solution.error().to_string();
  int workers = 0;
  for (const NodeLane& lane : solution->lanes) workers += lane.devices * lane.vsw * (lane.ga + 1);
  EXPECT_EQ(workers, 20'001);
}

}  // namespace
}  // namespace yoke::plan
