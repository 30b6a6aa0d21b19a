// Branch and bound over counts of granules, for the auto-scaling decision (scale.h).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "yoke/plan/solve/scale/epoch.h"
#include "yoke/plan/solve/batch/pool.h"

namespace yoke::plan {

/// What makes a candidate better, and which ones are allowed. Prices are per hour.
struct ScaleMeasure {
  enum class By { kSeconds, kCost } by = By::kSeconds;
  double most_seconds = std::numeric_limits<double>::infinity();
  double most_cost = std::numeric_limits<double>::infinity();

  double value(double seconds, double price) const { return by == By::kSeconds ? seconds : seconds * price / 3600; }
};

/// How much work may be done before the best so far is returned unproven. Counted, not timed: same input, same answer.
struct ScaleEffort {
  std::int64_t visits = 4'000'000;  // nodes of the search tree
  std::int64_t bounds = 80'000;     // of them, bounded closely
  std::int64_t solves = 1'500;      // candidates solved exactly
};

struct ScaleCandidate {
  Counts counts;
  int devices = 0;
  double seconds = 0;
  double value = 0;
};

struct ScaleSearchResult {
  std::optional<ScaleCandidate> best;
  std::int64_t solved = 0;
  bool proven = true;
};

/// `present` and what leaving it costs; prices per granule kind (0 when no one asks for cost).
struct ScaleProblem {
  std::optional<Counts> present;
  double move_seconds = 0;
  std::vector<double> device_prices;
  ScaleMeasure measure;
  ScaleEffort effort;
};

ScaleSearchResult search_scale(EpochCost& epoch, const Pool& pool, const ScaleProblem& problem);

}  // namespace yoke::plan
