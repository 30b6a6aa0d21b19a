#include "yoke/profiler/budget.h"

#include <gtest/gtest.h>

namespace yoke::profiler {
namespace {

using std::chrono::seconds;

TEST(Budget, RunsOutAndNotBelowZero) {
  base::ManualClock clock;
  Budget budget(seconds(10), clock);
  clock.advance(seconds(4));
  EXPECT_EQ(budget.left(), seconds(6));
  clock.advance(seconds(20));
  EXPECT_EQ(budget.left(), seconds(0));
  EXPECT_EQ(budget.whole(), seconds(10));
}

TEST(Budget, WaitingDoesNotCount) {
  base::ManualClock clock;
  Budget budget(seconds(10), clock);
  clock.advance(seconds(304));
  budget.exclude(seconds(300));
  EXPECT_EQ(budget.left(), seconds(6));
}

TEST(Budget, ForetellsByThePaceOfAllThatWasSeen) {
  base::ManualClock clock;
  Budget budget(seconds(10), clock);
  EXPECT_FALSE(budget.knows_pace());
  EXPECT_TRUE(budget.affords(1e9)) << "nothing speaks against it yet";
  budget.saw(8, 0.8);
  EXPECT_TRUE(budget.knows_pace());
  EXPECT_DOUBLE_EQ(budget.seconds_of(32), 3.2);
  EXPECT_TRUE(budget.affords(100));
  EXPECT_FALSE(budget.affords(101));
  budget.saw(72, 7.2);
  budget.saw(1, 1.1);
  EXPECT_NEAR(budget.seconds_of(81), 9.1, 1e-9) << "a step that was disturbed weighs what it is";
  budget.forget_pace();
  EXPECT_FALSE(budget.knows_pace());
  budget.saw(8, 1.6);
  EXPECT_FALSE(budget.affords(51)) << "since then a neighbour takes half of the machine";
  clock.advance(seconds(5));
  EXPECT_TRUE(budget.affords(24));
  EXPECT_FALSE(budget.affords(26));
  clock.advance(seconds(5));
  EXPECT_FALSE(budget.affords(1));
}

TEST(Budget, IsDealtBySamples) {
  base::ManualClock clock;
  Budget budget(seconds(120), clock);
  for (const double samples : {8, 16, 32, 64}) budget.plan(samples);
  EXPECT_DOUBLE_EQ(budget.take_share(8), 8);
  clock.advance(seconds(8));
  EXPECT_DOUBLE_EQ(budget.take_share(16), 16) << "all kept to their shares so far";
  clock.advance(seconds(4));
  EXPECT_DOUBLE_EQ(budget.take_share(32), 36) << "what was left over is dealt again";
  clock.advance(seconds(60));
  EXPECT_DOUBLE_EQ(budget.take_share(64), 48) << "what was taken too much is missing";
}

TEST(Budget, WhatIsDroppedLeavesItsShareToTheOthers) {
  base::ManualClock clock;
  Budget budget(seconds(30), clock);
  for (const double samples : {10, 10, 10}) budget.plan(samples);
  budget.drop(10);
  EXPECT_DOUBLE_EQ(budget.take_share(10), 15);
}

TEST(Budget, SharesOfNothingAreNothing) {
  base::ManualClock clock;
  Budget budget(seconds(1), clock);
  budget.plan(5);
  clock.advance(seconds(2));
  EXPECT_DOUBLE_EQ(budget.take_share(5), 0);
}

}  // namespace
}  // namespace yoke::profiler
