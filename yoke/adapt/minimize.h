// Bounded minimisation of a smooth function of a few variables: projected BFGS with a backtracking line search.
// A place where the function is not finite counts as infinitely high, so the search walks around it.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace yoke::adapt {

struct Interval {
  double least = 0;
  double most = 0;

  double clamp(double value) const { return value < least ? least : (value > most ? most : value); }
  bool operator==(const Interval&) const = default;
};

/// Returns the value at `at` and writes the gradient there; both spans have the length of the start.
using Objective = std::function<double(std::span<const double> at, std::span<double> gradient)>;

struct Minimum {
  std::vector<double> at;
  double value = 0;  // not finite only if the function is not finite at the start
};

/// The local minimum reached from `start`, which is first moved into `box` (one interval per variable). Never worse
/// than the start. Stops at a projected gradient below `tolerance` or when no step improves the value.
Minimum minimize(const Objective& objective, std::span<const double> start, std::span<const Interval> box,
                 double tolerance = 1e-6);

}  // namespace yoke::adapt
