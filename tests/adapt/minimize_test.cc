#include "yoke/adapt/minimize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace yoke::adapt {
namespace {

double rosenbrock(std::span<const double> at, std::span<double> gradient) {
  const double valley = at[1] - at[0] * at[0];
  gradient[0] = -2 * (1 - at[0]) - 400 * at[0] * valley;
  gradient[1] = 200 * valley;
  return (1 - at[0]) * (1 - at[0]) + 100 * valley * valley;
}

TEST(Minimize, FollowsACurvedValleyToItsEnd) {
  const Minimum found = minimize(rosenbrock, std::vector{-1.2, 1.0}, std::vector<Interval>{{-5, 5}, {-5, 5}});
  EXPECT_NEAR(found.at[0], 1, 1e-5);
  EXPECT_NEAR(found.at[1], 1, 1e-5);
}

TEST(Minimize, StopsAtTheBoundThatHoldsTheMinimum) {
  // With x <= 0.5 the best of the valley is x = 0.5, y = 0.25.
  const Minimum found = minimize(rosenbrock, std::vector{-1.2, 1.0}, std::vector<Interval>{{-5, 0.5}, {-5, 5}});
  EXPECT_EQ(found.at[0], 0.5);
  EXPECT_NEAR(found.at[1], 0.25, 1e-6);
}

TEST(Minimize, MovesAStartIntoTheBox) {
  const Minimum found = minimize(rosenbrock, std::vector{9.0, -9.0}, std::vector<Interval>{{0, 2}, {2, 2}});
  EXPECT_EQ(found.at[1], 2);
  EXPECT_NEAR(found.at[0], std::sqrt(2), 0.01);
}

TEST(Minimize, WalksAroundPlacesWithoutAValue) {
  const auto with_a_cliff = [](std::span<const double> at, std::span<double> gradient) {
    gradient[0] = 1 - 1 / at[0];
    return at[0] > 0 ? at[0] - std::log(at[0]) : std::numeric_limits<double>::quiet_NaN();
  };
  const Minimum found = minimize(with_a_cliff, std::vector{4.0}, std::vector<Interval>{{-10, 10}});
  EXPECT_NEAR(found.at[0], 1, 1e-5);
}

TEST(Minimize, SaysWhenThereIsNoValueAtTheStart) {
  const auto nowhere = [](std::span<const double>, std::span<double>) {
    return std::numeric_limits<double>::quiet_NaN();
  };
  EXPECT_FALSE(std::isfinite(minimize(nowhere, std::vector{1.0}, std::vector<Interval>{{0, 2}}).value));
}

}  // namespace
}  // namespace yoke::adapt
