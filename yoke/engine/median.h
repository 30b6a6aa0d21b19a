// The middle of measured values: what one slow step does not move.
#pragma once

#include <algorithm>
#include <vector>

namespace yoke::engine {

/// The upper one of the two in the middle; 0 for none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace yoke::engine
