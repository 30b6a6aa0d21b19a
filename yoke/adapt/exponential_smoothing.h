// Simple exponential smoothing: a level that follows the series, level += alpha * (value - level). The forecast is
// flat at the last level.
#pragma once

#include <span>

#include "yoke/base/result.h"

namespace yoke::adapt {

struct ExponentialSmoothing {
  double alpha = 1;           // 0: the level never moves; 1: it is always the last value
  double initial_level = 0;   // before the first value
  double level = 0;           // after the last value: the forecast
  double squared_errors = 0;  // sum of (value - level before it)^2

  bool operator==(const ExponentialSmoothing&) const = default;
};

/// Runs the recursion at a given alpha and initial level.
ExponentialSmoothing smooth(std::span<const double> values, double alpha, double initial_level);

/// Alpha in [0, 1] and the initial level that make the squared errors least: the global minimum up to the resolution
/// of a fine scan of alpha. Among equal ones the largest alpha wins, so a series that says nothing about alpha is
/// continued from its last value. Input error if there is no value or one is not finite.
base::Result<ExponentialSmoothing> fit_exponential_smoothing(std::span<const double> values);

}  // namespace yoke::adapt
