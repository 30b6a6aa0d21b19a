#include "yoke/adapt/exponential_smoothing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace yoke::adapt {
namespace {

// Larger values are no data of anyone's; their squares would leave a double's range.
constexpr double kLargest = 1e100;
constexpr int kScan = 500;
// The minimum of a parabola is flat to half the digits: below this width alpha no longer changes the sum.
constexpr double kAlphaWidth = 1e-9;

/// The best initial level for a given alpha. The error of value t is linear in the level, error_t = a_t - b_t * level
/// with b_t = (1 - alpha)^t, so the best level is one division.
ExponentialSmoothing best_at(std::span<const double> values, double alpha) {
  // Measured from the first value: the sums then lose no digits to a common offset.
  const double offset = values.front();
  double follower = 0;  // the level of a series that starts at the offset
  double weight = 1;    // what is left of the initial level
  double product = 0;
  double square = 0;
  for (const double value : values) {
    const double error = value - offset - follower;
    product += weight * error;
    square += weight * weight;
    follower += alpha * error;
    weight *= 1 - alpha;
  }
  return smooth(values, alpha, offset + product / square);
}

/// Golden-section search of the squared errors between two alphas.
ExponentialSmoothing refine(std::span<const double> values, double least, double most) {
  const double ratio = 1 / std::numbers::phi;
  ExponentialSmoothing left = best_at(values, most - ratio * (most - least));
  ExponentialSmoothing right = best_at(values, least + ratio * (most - least));
  while (most - least > kAlphaWidth) {
    if (left.squared_errors < right.squared_errors) {
      most = right.alpha;
      right = left;
      left = best_at(values, most - ratio * (most - least));
    } else {
      least = left.alpha;
      left = right;
      right = best_at(values, least + ratio * (most - least));
    }
  }
  return left.squared_errors < right.squared_errors ? left : right;
}

}  // namespace

ExponentialSmoothing smooth(std::span<const double> values, double alpha, double initial_level) {
  ExponentialSmoothing smoothing{.alpha = alpha, .initial_level = initial_level, .level = initial_level};
  for (const double value : values) {
    const double error = value - smoothing.level;
    smoothing.squared_errors += error * error;
    smoothing.level += alpha * error;
  }
  return smoothing;
}

base::Result<ExponentialSmoothing> fit_exponential_smoothing(std::span<const double> values) {
  if (values.empty()) return base::input_error("exponential smoothing needs at least one value; found none");
  const auto usable = [](double value) { return std::abs(value) <= kLargest; };
  if (const auto bad = std::find_if_not(values.begin(), values.end(), usable); bad != values.end()) {
    return base::input_error(
        fmt::format("exponential smoothing needs finite values, at most {} in size; found {}", kLargest, *bad));
  }
  // From 1 downwards, and only a smaller sum wins: ties go to the largest alpha.
  ExponentialSmoothing best = best_at(values, 1);
  for (int i = kScan - 1; i >= 0; --i) {
    const ExponentialSmoothing here = best_at(values, static_cast<double>(i) / kScan);
    if (here.squared_errors < best.squared_errors) best = here;
  }
  const double step = 1.0 / kScan;
  const ExponentialSmoothing refined =
      refine(values, std::max(0.0, best.alpha - step), std::min(1.0, best.alpha + step));
  return refined.squared_errors < best.squared_errors ? refined : best;
}

}  // namespace yoke::adapt
