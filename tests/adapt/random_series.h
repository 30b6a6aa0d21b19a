// Batch histories as the similarity policy makes them: a walk by about 10 % a decision, granted in units of 64 samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "yoke/adapt/forecaster.h"

namespace yoke::adapt {

/// `up` of 10 decisions grow the batch (on average). Never outside `bounds`.
inline std::vector<BatchPoint> random_series(std::mt19937& generator, int points, unsigned up, BatchBounds bounds) {
  constexpr std::int64_t kUnit = 64;
  std::vector<BatchPoint> series;
  std::int64_t gbs = bounds.clamp(kUnit * static_cast<std::int64_t>(4 + generator() % 60));
  for (int i = 1; i <= points; ++i) {
    const bool grow = generator() % 10 < up;
    const std::int64_t units = std::max<std::int64_t>(1, std::llround(static_cast<double>(gbs) * 0.1 / kUnit));
    gbs = bounds.clamp(gbs + (grow ? 1 : -1) * units * kUnit);
    series.push_back({.step = 100 * i, .gbs = gbs});
  }
  return series;
}

}  // namespace yoke::adapt
