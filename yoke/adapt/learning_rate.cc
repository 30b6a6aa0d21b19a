#include "yoke/adapt/learning_rate.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "yoke/base/error.h"

namespace yoke::adapt {

std::string_view to_string(LearningRateRule rule) {
  switch (rule) {
    case LearningRateRule::kSqrt:
      return "sqrt";
    case LearningRateRule::kLinear:
      return "linear";
    case LearningRateRule::kNone:
      return "none";
  }
  return "unknown";
}

base::Result<LearningRateRule> parse_learning_rate_rule(std::string_view text) {
  constexpr std::array kRules{LearningRateRule::kSqrt, LearningRateRule::kLinear, LearningRateRule::kNone};
  for (const LearningRateRule rule : kRules) {
    if (text == to_string(rule)) return rule;
  }
  return base::input_error(fmt::format("unknown learning-rate rule `{}`: expected sqrt, linear or none", text));
}

double learning_rate_factor(LearningRateRule rule, std::int64_t gbs, std::int64_t base_gbs) {
  base::require(gbs >= 1 && base_gbs >= 1, fmt::format("batches must be >= 1: gbs {}, base {}", gbs, base_gbs));
  const double ratio = static_cast<double>(gbs) / static_cast<double>(base_gbs);
  switch (rule) {
    case LearningRateRule::kSqrt:
      return std::sqrt(ratio);
    case LearningRateRule::kLinear:
      return ratio;
    case LearningRateRule::kNone:
      break;
  }
  return 1;
}

}  // namespace yoke::adapt
