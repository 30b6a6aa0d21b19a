#include "yoke/engine/lane.h"

#include <gmock/gmock.h>

namespace yoke::engine {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<base::Duration> waits(double speed, base::Duration computed) {
  std::vector<base::Duration> all;
  wait_as_slow_device(speed, computed, [&](base::Duration time) { all.push_back(time); });
  return all;
}

TEST(Lane, ASlowDeviceWaitsForWhatItWouldHaveComputedLonger) {
  EXPECT_THAT(waits(0.5, milliseconds(80)), ElementsAre(milliseconds(80)));
  EXPECT_THAT(waits(0.25, milliseconds(80)), ElementsAre(milliseconds(240)));
  EXPECT_THAT(waits(0.8, milliseconds(80)), ElementsAre(milliseconds(20)));
  EXPECT_THAT(waits(0.5, milliseconds(0)), ElementsAre(milliseconds(0)));
  EXPECT_THAT(waits(1, milliseconds(80)), IsEmpty());
}

}  // namespace
}  // namespace yoke::engine
