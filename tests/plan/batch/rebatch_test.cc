#include "yoke/plan/solve/batch/rebatch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/plan/batch/quickstart.h"
#include "tests/plan/batch/random_cost.h"

namespace yoke::plan {
namespace {

using namespace testing;  // NOLINT: the helpers of these tests

TEST(Rebatch, GrantsWhatTheOriginalLosesInRounding) {
  YOKE_NEEDS_SHARED_DATA();
  const IidpModel model = quickstart_model("jabas");
  const auto grown =
      solve_rebatch(model, {.present = {.gbs = 128, .lbs = 32, .servers = {"node0"}}, .wanted_gbs = 140.8});
  ASSERT_TRUE(grown.ok() && grown->has_value());
  EXPECT_EQ((*grown)->gbs, 160);  // the original stays at 128 for ever
  EXPECT_EQ((*grown)->workers, 5);
}

TEST(Rebatch, FollowsTheOriginalsSequencesAtLeastAsClosely) {
  YOKE_NEEDS_SHARED_DATA();
  const IidpModel model = quickstart_model("jabas");
  const base::Document golden = load(shared_data("golden/trainer.json"));
  base::Reader reader(golden);
  int same = 0;
  int rows = 0;
  for (auto& row : reader.root().field("trainer_calls").field("solve_placement").items()) {
    ++rows;
    RebatchRequest request{.wanted_gbs = row.field("requested_gbs").number(), .most_gbs = 32768};
    request.present.gbs = static_cast<int>(row.field("current_gbs").integer());
    request.present.lbs = static_cast<int>(row.field("current_lbs").integer());
    request.present.unit = 2;
    for (auto& server : row.field("servers").items()) request.present.servers.push_back(server.text());
    const auto solved = solve_rebatch(model, request);
    ASSERT_TRUE(solved.ok());
    SCOPED_TRACE(row.where().to_string());
    const int present = request.present.gbs;
    const double wanted = request.wanted_gbs;
    const auto original = static_cast<int>(row.field("new_gbs").integer());
    if (!solved->has_value()) {
      EXPECT_EQ(original, 0);
      continue;
    }
    const BatchSolution& granted = **solved;
    EXPECT_EQ(granted.gbs > present, wanted > present);
    EXPECT_LE(granted.gbs, 32768);
    if (original == 0) continue;  // stuck
    const double half_the_change = 0.5 * std::abs(wanted - present);
    EXPECT_LE(std::abs(granted.gbs - wanted), std::max(half_the_change, std::abs(original - wanted)));
    same += granted.gbs == original && granted.lbs == row.field("new_lbs").integer();
  }
  ASSERT_TRUE(reader.ok()) << reader.error().to_string();
  EXPECT_EQ(rows, 145);
  RecordProperty("same_as_original", same);
  EXPECT_GT(same, 0);
}

TEST(Rebatch, IsTheNearestPossibleOrNearEnoughAndFast) {
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    const RandomCost cost(random, {.most_nodes = 3, .most_devices = 3, .most_classes = 2});
    RebatchRequest request{.wanted_gbs = RandomCost::uniform(random, 10, 900) / 10.0,
                           .least_gbs = RandomCost::uniform(random, 1, 20),
                           .most_gbs = RandomCost::uniform(random, 40, 90)};
    request.present.gbs = RandomCost::uniform(random, 5, 80);
    request.present.unit = RandomCost::uniform(random, 1, 2);
    const auto solved = solve_rebatch(cost, request);
    ASSERT_TRUE(solved.ok());
    const double wanted = std::clamp<double>(request.wanted_gbs, request.least_gbs, *request.most_gbs);
    const bool grow = wanted > request.present.gbs;
    std::optional<double> nearest;  // over every batch that has a solution
    for (int gbs = request.least_gbs; gbs <= *request.most_gbs; ++gbs) {
      if (wanted == request.present.gbs || gbs == request.present.gbs || (gbs > request.present.gbs) != grow) continue;
      BatchRequest tried = request.present;
      tried.gbs = gbs;
      if (!solve_batch(cost, tried).ok()) continue;
      nearest = std::min(nearest.value_or(1e9), std::abs(gbs - wanted));
    }
    SCOPED_TRACE(i);
    ASSERT_EQ(solved->has_value(), nearest.has_value());
    if (!nearest) continue;
    const BatchSolution& granted = **solved;
    ASSERT_GE(granted.gbs, request.least_gbs);
    ASSERT_LE(granted.gbs, *request.most_gbs);
    ASSERT_EQ(granted.gbs > request.present.gbs, grow);
    const double near = 0.5 * std::abs(wanted - request.present.gbs);
    ASSERT_LE(std::abs(granted.gbs - wanted), std::max(near, *nearest));
  }
}

TEST(Rebatch, RefusesNonsense) {
  std::mt19937 random(8);
  const RandomCost cost(random, {});
  EXPECT_FALSE(solve_rebatch(cost, {.present = {.gbs = 4}, .wanted_gbs = std::nan("")}).ok());
  EXPECT_FALSE(solve_rebatch(cost, {.present = {.gbs = 4}, .wanted_gbs = 5, .least_gbs = 9, .most_gbs = 3}).ok());
  EXPECT_FALSE(solve_rebatch(cost, {.present = {.gbs = 4, .servers = {"nowhere"}}, .wanted_gbs = 5}).ok());
}

}  // namespace
}  // namespace yoke::plan
