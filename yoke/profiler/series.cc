#include "yoke/profiler/series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "yoke/base/result.h"

namespace yoke::profiler {
namespace {

constexpr int kLeastToTell = 3;           // values: fewer tell nothing of how they vary
constexpr std::size_t kVisitsToTrim = 6;  // of which the ends do not count

double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

double Series::median() const {
  return middle(values_);
}

double Series::spread() const {
  if (count() < kLeastToTell) return std::numeric_limits<double>::infinity();
  const double center = median();
  if (center == 0) return 0;
  std::vector<double> off;
  for (const double value : values_) off.push_back(std::abs(value - center));
  constexpr double kDeviation = 1.4826;    // of a normal distribution, over its median absolute deviation
  constexpr double kMedianError = 1.2533;  // standard error of the median over that of the mean
  constexpr double kInterval = 1.96;
  return kInterval * kMedianError * kDeviation * middle(off) / std::sqrt(static_cast<double>(values_.size())) / center;
}

profile::Confidence Series::confidence(double limit) const {
  const double share = spread();
  const bool known = std::isfinite(share);
  return {.spread = known ? share : 1, .count = count(), .noisy = !known || share > limit};
}

Typical typical_visit(const std::vector<Visit>& visits, double noisy) {
  base::require(!visits.empty(), "a measurement without a visit");
  std::vector<std::size_t> order(visits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return visits[i].ms; });
  Typical typical{.visit = order[(order.size() - 1) / 2], .confidence = visits.front().confidence};
  typical.confidence.visits = static_cast<int>(visits.size());
  if (visits.size() == 1) return typical;
  const std::size_t end = visits.size() >= kVisitsToTrim ? 1 : 0;
  const double apart = visits[order[order.size() - 1 - end]].ms - visits[order[end]].ms;
  typical.confidence.spread = apart / 2 / visits[typical.visit].ms;
  typical.confidence.count = 0;
  for (const auto& visit : visits) typical.confidence.count += visit.confidence.count;
  typical.confidence.noisy = typical.confidence.spread > noisy || typical.confidence.count < kLeastToTell;
  return typical;
}

}  // namespace yoke::profiler
