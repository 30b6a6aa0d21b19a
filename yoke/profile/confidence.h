// How sure a measured time is.
#pragma once

#include <optional>

namespace yoke::profile {

/// How far a measured time can be trusted.
struct Confidence {
  double spread = 0;   // as a share of the time: half of what lies between visits, or of the 95% interval of one
  int count = 0;       // steps that were measured
  bool noisy = false;  // the spread was still too wide when the time was up, or there are too few steps to tell
  std::optional<int> visits = {};  // moments apart that it was measured at; absent: as many as were wanted

  bool operator==(const Confidence&) const = default;
};

}  // namespace yoke::profile
