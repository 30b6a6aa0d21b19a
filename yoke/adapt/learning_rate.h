// How the learning rate follows the global batch. The factor applies to the rate of the schedule, which is meant for
// the base batch; it never accumulates from step to step.
#pragma once

#include <cstdint>
#include <string_view>

#include "yoke/base/result.h"

namespace yoke::adapt {

/// kSqrt: sqrt(gbs / base), keeps the variance of an update. kLinear: gbs / base, keeps the distance per sample.
/// kNone: 1.
enum class LearningRateRule { kSqrt, kLinear, kNone };

/// As job files write it: "sqrt", "linear", "none".
std::string_view to_string(LearningRateRule rule);
base::Result<LearningRateRule> parse_learning_rate_rule(std::string_view text);

/// What to multiply the scheduled learning rate with. Both batches must be at least 1: a smaller one is a bug of the
/// caller, since batches are checked where they enter.
double learning_rate_factor(LearningRateRule rule, std::int64_t gbs, std::int64_t base_gbs);

}  // namespace yoke::adapt
