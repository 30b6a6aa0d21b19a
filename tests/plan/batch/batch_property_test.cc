#include <gtest/gtest.h>

#include "tests/plan/batch/brute_force.h"
#include "tests/plan/batch/random_cost.h"
#include "yoke/plan/solve/batch/batch.h"
#include "yoke/plan/solve/batch/worker_set.h"

namespace yoke::plan {
namespace {

using testing::brute_solve;
using testing::RandomCost;

BatchRequest random_request(std::mt19937& random, int most_gbs) {
  BatchRequest request{.gbs = RandomCost::uniform(random, 1, most_gbs)};
  request.unit = 1 << RandomCost::uniform(random, 0, 2);
  if (RandomCost::uniform(random, 0, 3) == 0) request.lbs = RandomCost::uniform(random, 2, 3);
  if (RandomCost::uniform(random, 0, 1) == 0) request.sync = Sync::kOverlap;
  return request;
}

void expect_as_brute_force(const BatchCost& cost, const BatchRequest& request) {
  const auto expected = brute_solve(cost, request);
  const auto solution = solve_batch(cost, request);
  ASSERT_EQ(solution.ok(), expected.has_value());
  if (!expected) {
    ASSERT_EQ(solution.error().kind, base::ErrorKind::kInfeasible);
    return;
  }
  ASSERT_NEAR(solution->step_seconds, expected->seconds, 1e-12);
  ASSERT_EQ(solution->lbs, expected->lbs);
  ASSERT_TRUE(solution->proven);
  int workers = 0;
  int devices = 0;
  for (const NodeLane& lane : solution->lanes) {
    workers += lane.vsw * (lane.ga + 1) * lane.devices;
    devices += lane.devices;
    ASSERT_LE(lane.seconds, solution->step_seconds);
  }
  ASSERT_EQ(workers, solution->workers);
  ASSERT_EQ(devices, solution->extent.devices);
}

TEST(BatchProperty, EqualsBruteForceWhenEveryDeviceWorks) {
  std::mt19937 random(1);
  for (int i = 0; i < 4000; ++i) {
    const RandomCost cost(random, {.most_nodes = 3, .most_devices = 3, .most_classes = 3});
    const BatchRequest request = random_request(random, 40);
    SCOPED_TRACE(i);
    ASSERT_NO_FATAL_FAILURE(expect_as_brute_force(cost, request));
  }
}

TEST(BatchProperty, EqualsBruteForceWhenDevicesMayIdle) {
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    const RandomCost cost(random, {.most_nodes = 3, .most_devices = 3, .most_classes = 2});
    BatchRequest request = random_request(random, 30);
    request.idle_unit = RandomCost::uniform(random, 1, 3);
    SCOPED_TRACE(i);
    ASSERT_NO_FATAL_FAILURE(expect_as_brute_force(cost, request));
  }
}

TEST(BatchProperty, NearbyBatchesAreTheNearestThatHaveASolution) {
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    const RandomCost cost(random, {.most_nodes = 3, .most_devices = 5, .most_classes = 2});
    BatchRequest request = random_request(random, 60);
    if (i % 2 == 0) request.idle_unit = RandomCost::uniform(random, 1, 3);
    const NearbyBatches nearby = nearby_batches(cost, request).value();
    const auto solvable = [&](int gbs) {
      BatchRequest other = request;
      other.gbs = gbs;
      return solve_batch(cost, other).ok();
    };
    std::optional<int> below;
    for (int gbs = request.gbs - 1; gbs >= 1 && !below; --gbs) {
      if (solvable(gbs)) below = gbs;
    }
    std::optional<int> above;
    for (int gbs = request.gbs + 1; gbs <= request.gbs + 100 && !above; ++gbs) {
      if (solvable(gbs)) above = gbs;
    }
    SCOPED_TRACE(i);
    ASSERT_EQ(nearby.below, below);
    ASSERT_EQ(nearby.above, above);
  }
}

TEST(BatchProperty, SolvingTwiceGivesTheSamePlan) {
  std::mt19937 random(4);
  for (int i = 0; i < 200; ++i) {
    const RandomCost cost(random, {.most_nodes = 5, .most_devices = 4, .most_classes = 3});
    BatchRequest request = random_request(random, 200);
    if (i % 2 == 0) request.idle_unit = 2;
    const auto first = solve_batch(cost, request);
    const auto second = solve_batch(cost, request);
    ASSERT_EQ(first.ok(), second.ok());
    if (!first.ok()) continue;
    ASSERT_EQ(first->lanes.size(), second->lanes.size());
    for (std::size_t k = 0; k < first->lanes.size(); ++k) {
      ASSERT_EQ(first->lanes[k].node, second->lanes[k].node);
      ASSERT_EQ(first->lanes[k].vsw, second->lanes[k].vsw);
      ASSERT_EQ(first->lanes[k].ga, second->lanes[k].ga);
    }
  }
}

TEST(WorkerSet, SumsAreThoseOfAllPairs) {
  std::mt19937 random(5);
  for (int i = 0; i < 500; ++i) {
    const int limit_a = RandomCost::uniform(random, 0, 150);
    const int limit_b = RandomCost::uniform(random, 0, 150);
    const int limit = RandomCost::uniform(random, 0, 300);
    WorkerSet a(limit_a);
    WorkerSet b(limit_b);
    const int density = RandomCost::uniform(random, 1, 10);
    for (int k = 0; k <= limit_a; ++k) {
      if (RandomCost::uniform(random, 1, density) == 1) a.insert(k);
    }
    for (int k = 0; k <= limit_b; ++k) {
      if (RandomCost::uniform(random, 1, density) == 1) b.insert(k);
    }
    const WorkerSet sums = WorkerSet::sums(a, b, limit);
    for (int total = 0; total <= limit + 70; ++total) {
      bool expected = false;
      for (int k = 0; k <= total && !expected; ++k) expected = a.contains(k) && b.contains(total - k);
      ASSERT_EQ(sums.contains(total), expected && total <= limit) << i << " " << total;
    }
  }
}

}  // namespace
}  // namespace yoke::plan
