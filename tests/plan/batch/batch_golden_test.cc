#include <gtest/gtest.h>

#include "tests/plan/batch/quickstart.h"
#include "yoke/plan/solve/batch/batch.h"

namespace yoke::plan {
namespace {

using namespace testing;  // NOLINT: the helpers of these tests

BatchRequest request_of(base::View& row) {
  BatchRequest request{.gbs = static_cast<int>(row.field("gbs").integer()),
                       .unit = static_cast<int>(row.field("alloc_unit").integer())};
  for (auto& server : row.field("servers").items()) request.servers.push_back(server.text());
  const std::string sync = row.field("weight_sync").text();
  if (sync != "recommend") request.sync = sync == "overlap" ? Sync::kOverlap : Sync::kSequential;
  return request;
}

/// What a solution says must hold together, whatever the numbers are.
void expect_consistent(const BatchCost& cost, const BatchSolution& solution) {
  EXPECT_EQ(solution.gbs, solution.lbs * solution.workers);
  int workers = 0;
  int devices = 0;
  double slowest = 0;
  for (const NodeLane& lane : solution.lanes) {
    const LaneWork work{.lbs = solution.lbs, .vsw = lane.vsw, .ga = lane.ga};
    workers += work.workers() * lane.devices;
    devices += lane.devices;
    slowest = std::max(slowest, lane.seconds);
    EXPECT_LE(lane.vsw, cost.max_vsw(lane.device_class, solution.lbs));
    expect_close(cost.step_seconds(lane.device_class, work, solution.sync, solution.extent), lane.seconds, 1e-12);
  }
  EXPECT_EQ(workers, solution.workers);
  EXPECT_EQ(devices, solution.extent.devices);
  EXPECT_EQ(slowest, solution.step_seconds);
}

TEST(BatchGolden, EqualsTheProvenOptimumOfEveryRow) {
  YOKE_NEEDS_SHARED_DATA();
  const std::map<std::string, IidpModel> models{{"iidp", quickstart_model("iidp")},
                                                {"jabas", quickstart_model("jabas")}};
  const base::Document golden = load(shared_data("golden/batch.json"));
  base::Reader reader(golden);
  int solved = 0;
  int unsolved = 0;
  int per_device = 0;
  for (auto& row : reader.root().field("records").items()) {
    const std::string tool = row.field("tool").text();
    const IidpModel& model = models.at(tool);
    BatchRequest request = request_of(row);
    // JABAS may leave whole allocation units out; IIDP uses every server.
    if (tool == "jabas") request.idle_unit = request.unit;
    const bool fixed = !row.field("lbs_mode").is_text();
    if (fixed) request.lbs = static_cast<int>(row.field("lbs_mode").integer());
    SCOPED_TRACE(row.where().to_string());

    const auto solution = solve_batch(model, request);
    if (row.has("exact_no_solution")) {
      ++unsolved;
      ASSERT_FALSE(solution.ok());
    } else {
      ++solved;
      ASSERT_TRUE(solution.ok()) << solution.error().to_string();
      expect_close(solution->samples_per_second, row.field("exact_throughput").number(), 1e-9);
      expect_close(solution->step_seconds, row.field("exact_iter_time").number(), 1e-9);
      EXPECT_EQ(solution->lbs, row.field("exact_lbs").integer());
      EXPECT_EQ(to_string(solution->sync), row.field("weight_sync_used").text());
      EXPECT_GE(solution->samples_per_second, row.field("throughput").number() * (1 - 1e-12));
      EXPECT_TRUE(solution->proven);
      expect_consistent(model, *solution);
    }
    if (row.has("exact_per_gpu_throughput")) {
      ++per_device;
      request.unit = 1;
      const auto each = solve_batch(model, request);
      ASSERT_TRUE(each.ok()) << each.error().to_string();
      expect_close(each->samples_per_second, row.field("exact_per_gpu_throughput").number(), 1e-9);
      EXPECT_EQ(each->lbs, row.field("exact_per_gpu_lbs").integer());
      expect_consistent(model, *each);
    }
  }
  ASSERT_TRUE(reader.ok()) << reader.error().to_string();
  EXPECT_EQ(solved, 905);
  EXPECT_EQ(unsolved, 600);
  EXPECT_EQ(per_device, 798);
}

TEST(BatchGolden, EqualsTheProvenOptimumOfEveryRunTimeSolve) {
  YOKE_NEEDS_SHARED_DATA();
  const IidpModel model = quickstart_model("jabas");
  const base::Document golden = load(shared_data("golden/trainer.json"));
  base::Reader reader(golden);
  int checked = 0;
  for (auto& row : reader.root().field("trainer_solve").items()) {
    BatchRequest request = request_of(row);
    request.lbs = static_cast<int>(row.field("lbs").integer());
    const auto solution = solve_batch(model, request);
    SCOPED_TRACE(row.where().to_string());
    ASSERT_TRUE(solution.ok()) << solution.error().to_string();
    EXPECT_EQ(solution->workers, row.field("total_workers").integer());
    expect_close(solution->step_seconds, row.field("exact_iter_time").number(), 1e-9);
    expect_consistent(model, *solution);
    ++checked;
  }
  ASSERT_TRUE(reader.ok()) << reader.error().to_string();
  EXPECT_EQ(checked, 600);
}

TEST(BatchGolden, GivesThePublishedQuickstartPlans) {
  YOKE_NEEDS_SHARED_DATA();
  const auto jabas = solve_batch(quickstart_model("jabas"), {.gbs = 128, .unit = 4, .idle_unit = 4});
  ASSERT_TRUE(jabas.ok());
  EXPECT_EQ(jabas->lbs, 32);
  ASSERT_EQ(jabas->lanes.size(), 1U);
  EXPECT_EQ(jabas->lanes[0].node, "node0");
  EXPECT_EQ(jabas->lanes[0].devices, 4);
  EXPECT_EQ(jabas->lanes[0].vsw, 1);
  EXPECT_EQ(jabas->lanes[0].ga, 0);

  const auto iidp = solve_batch(quickstart_model("iidp"), {.gbs = 512, .unit = 4});
  ASSERT_TRUE(iidp.ok());
  EXPECT_EQ(iidp->lbs, 32);
  ASSERT_EQ(iidp->lanes.size(), 2U);
  EXPECT_EQ(iidp->lanes[0].vsw, 3);
  EXPECT_EQ(iidp->lanes[1].vsw, 1);
  EXPECT_EQ(iidp->lanes[0].ga + iidp->lanes[1].ga, 0);
}

}  // namespace
}  // namespace yoke::plan
