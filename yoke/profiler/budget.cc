#include "yoke/profiler/budget.h"

#include <algorithm>

#include "yoke/base/result.h"

namespace yoke::profiler {

void Budget::saw(double samples, double seconds) {
  base::require(samples > 0, "a pace of no samples");
  seen_samples_ += samples;
  seen_seconds_ += seconds;
}

double Budget::take_share(double samples) {
  base::require(samples > 0, "a share for no samples");
  const double seconds = base::to_seconds(left()) * samples / std::max(samples, planned_);
  planned_ -= samples;
  return seconds;
}

}  // namespace yoke::profiler
