// When the global batch should grow or shrink: the gradient similarity rule. Pure functions on values. The answer is a
// wish; the planner finds the nearest batch that the machines can run.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "yoke/base/result.h"

namespace yoke::adapt {

/// The allowed global batches, both included.
struct BatchBounds {
  /// No batch is larger than this; it keeps all arithmetic on batches far from overflow.
  static constexpr std::int64_t kLargest = 1'000'000'000;

  std::int64_t min = 1;
  std::int64_t max = kLargest;

  std::int64_t clamp(std::int64_t gbs) const { return gbs < min ? min : (gbs > max ? max : gbs); }
  double clamp(double gbs) const;
  bool operator==(const BatchBounds&) const = default;
};

/// 1 <= min <= max <= kLargest.
base::Status validate(const BatchBounds& bounds);

/// Gradients that agree less than `target` are mostly noise: a larger batch averages it out. Gradients that agree more
/// waste samples: a smaller batch would do. `rate` is the change per decision, relative to the present batch.
struct SimilarityPolicy {
  double target = 0.1;
  double rate = 0.1;
  BatchBounds bounds;

  bool operator==(const SimilarityPolicy&) const = default;
};

/// Target from -1 to 1, rate above 0 and below 1, valid bounds.
base::Status validate(const SimilarityPolicy& policy);

enum class BatchReason {
  kBelowTarget,  // grows
  kAboveTarget,  // shrinks
  kOnTarget,     // kept
  kNotMeasured,  // kept: there is no similarity, or it is not a number
  kAtLargest,    // the rule asks for more than bounds.max
  kAtSmallest,   // the rule asks for less than bounds.min
};

struct BatchDecision {
  std::int64_t gbs = 1;  // wanted
  BatchReason reason = BatchReason::kNotMeasured;

  bool operator==(const BatchDecision&) const = default;
};

/// The batch wanted after a similarity measured at `gbs` (at least 1). A change is at least one sample, so small
/// batches are not stuck by rounding. The answer is always within the bounds, also where `gbs` is not.
BatchDecision decide(const SimilarityPolicy& policy, std::int64_t gbs, std::optional<double> similarity);

/// `similarity below the target: a larger batch`: the clause an event log prints.
std::string_view to_string(BatchReason reason);

}  // namespace yoke::adapt
