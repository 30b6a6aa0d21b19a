#include "yoke/adapt/batch_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "yoke/base/error.h"

namespace yoke::adapt {

double BatchBounds::clamp(double gbs) const {
  return std::clamp(gbs, static_cast<double>(min), static_cast<double>(max));
}

base::Status validate(const BatchBounds& bounds) {
  if (bounds.min < 1 || bounds.max < bounds.min || bounds.max > BatchBounds::kLargest) {
    return base::input_error(fmt::format("batch bounds must satisfy 1 <= min <= max <= {}; found min {} and max {}",
                                         BatchBounds::kLargest, bounds.min, bounds.max),
                             {.field = "min"});
  }
  return {};
}

base::Status validate(const SimilarityPolicy& policy) {
  if (!(policy.target >= -1 && policy.target <= 1)) {
    return base::input_error(
        fmt::format("the similarity target is a cosine: expected a number from -1 to 1, found {}", policy.target));
  }
  if (!(policy.rate > 0 && policy.rate < 1)) {
    return base::input_error(fmt::format(
        "the batch's rate of change must be above 0 and below 1 (0.1 is 10 % a decision), found {}", policy.rate));
  }
  return validate(policy.bounds);
}

BatchDecision decide(const SimilarityPolicy& policy, std::int64_t gbs, std::optional<double> similarity) {
  base::require(gbs >= 1, fmt::format("batches must be >= 1: gbs {}", gbs));
  const BatchBounds& bounds = policy.bounds;
  if (!similarity || std::isnan(*similarity)) return {bounds.clamp(gbs), BatchReason::kNotMeasured};
  if (*similarity == policy.target) return {bounds.clamp(gbs), BatchReason::kOnTarget};

  // In doubles: exact up to far beyond any batch, and free of overflow for one that is out of bounds.
  const auto present = static_cast<double>(gbs);
  const double change = std::max(1.0, std::round(policy.rate * present));
  const bool grow = *similarity < policy.target;
  const double asked = grow ? present + change : present - change;
  const double wanted = bounds.clamp(asked);
  const BatchReason rule = grow ? BatchReason::kBelowTarget : BatchReason::kAboveTarget;
  const BatchReason bound = asked > wanted ? BatchReason::kAtLargest : BatchReason::kAtSmallest;
  return {static_cast<std::int64_t>(wanted), asked == wanted ? rule : bound};
}

std::string_view to_string(BatchReason reason) {
  switch (reason) {
    case BatchReason::kBelowTarget:
      return "similarity below the target: a larger batch";
    case BatchReason::kAboveTarget:
      return "similarity above the target: a smaller batch";
    case BatchReason::kOnTarget:
      return "similarity on the target: kept";
    case BatchReason::kNotMeasured:
      return "no similarity measured: kept";
    case BatchReason::kAtLargest:
      return "limited by the largest batch allowed";
    case BatchReason::kAtSmallest:
      return "limited by the smallest batch allowed";
  }
  return "unknown";
}

}  // namespace yoke::adapt
