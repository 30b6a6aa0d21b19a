#include "yoke/base/clock.h"

#include <gtest/gtest.h>

#include <limits>

namespace yoke::base {
namespace {

using std::chrono::milliseconds;

TEST(Clock, DeadlinePassesWithTheClock) {
  ManualClock clock;
  const auto deadline = Deadline::in(milliseconds(5), clock);
  EXPECT_FALSE(deadline.passed(clock));
  EXPECT_EQ(deadline.left(clock), milliseconds(5));
  clock.advance(milliseconds(7));
  EXPECT_TRUE(deadline.passed(clock));
  EXPECT_EQ(deadline.left(clock), Duration::zero());
}

TEST(Clock, SecondsConvertAndClamp) {
  EXPECT_EQ(from_seconds(1.5), milliseconds(1500));
  EXPECT_DOUBLE_EQ(to_seconds(milliseconds(1500)), 1.5);
  EXPECT_EQ(from_seconds(std::numeric_limits<double>::infinity()), Duration::max());
  EXPECT_EQ(from_seconds(-1e300), Duration::min());
  EXPECT_EQ(from_seconds(std::numeric_limits<double>::quiet_NaN()), Duration::zero());
}

TEST(Clock, SystemClockNeverGoesBack) {
  const SystemClock clock;
  const Instant first = clock.now();
  EXPECT_GE(clock.now(), first);
}

}  // namespace
}  // namespace yoke::base
