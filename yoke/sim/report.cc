// What follows from a report: shares, medians, peaks.
#include <algorithm>
#include <vector>

#include "yoke/sim/simulator.h"

namespace yoke::sim {

double SimReport::steady_step_seconds() const {
  if (step_ends.size() < 2) return step_seconds();
  std::vector<double> each;
  for (std::size_t i = 1; i < step_ends.size(); ++i) each.push_back(step_ends[i] - step_ends[i - 1]);
  const auto middle = each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2);
  std::nth_element(each.begin(), middle, each.end());
  return *middle;
}

double SimReport::bubble_share() const {
  return std::max(0.0, share(&DeviceReport::bubble));  // not -0 by rounding
}

double SimReport::exposed_communication_share() const {
  return share(&DeviceReport::exposed_communication);
}

double SimReport::computing_share() const {
  return share(&DeviceReport::load) + share(&DeviceReport::forward) + share(&DeviceReport::recompute) +
         share(&DeviceReport::backward);
}

double SimReport::peak_bytes() const {
  double peak = 0;
  for (const auto& device : devices) peak = std::max(peak, device.peak_bytes);
  return peak;
}

double SimReport::share(double DeviceReport::*part) const {
  double sum = 0;
  for (const auto& device : devices) sum += device.*part;
  return seconds > 0 ? sum / (seconds * static_cast<double>(devices.size())) : 0;
}

}  // namespace yoke::sim
