#include "yoke/base/clock.h"

#include <time.h>

#include <cmath>

namespace yoke::base {

Duration from_seconds(double seconds) {
  constexpr double kMost = 9.2e9;  // seconds that still fit 63 bits of nanoseconds
  if (std::isnan(seconds)) return Duration::zero();
  if (seconds >= kMost) return Duration::max();
  if (seconds <= -kMost) return Duration::min();
  return Duration(std::llround(seconds * 1e9));
}

double processor_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

}  // namespace yoke::base
