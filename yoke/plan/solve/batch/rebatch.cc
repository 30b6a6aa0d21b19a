#include "yoke/plan/solve/batch/rebatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "yoke/plan/solve/batch/pool.h"
#include "yoke/plan/solve/batch/reach.h"

namespace yoke::plan {
namespace {

using base::Result;

/// A grant within this part of the change asked for is as good as the wish itself.
constexpr double kNearEnough = 0.5;

struct WorkerRange {
  int least = 1;
  int most = 0;
};

std::optional<int> nearest_in(const WorkerSet& totals, WorkerRange range, double wanted) {
  std::optional<int> best;
  for (int workers = range.least; workers <= std::min(range.most, totals.limit()); ++workers) {
    if (!totals.contains(workers)) continue;
    if (!best || std::abs(workers - wanted) < std::abs(*best - wanted)) best = workers;
  }
  return best;
}

}  // namespace

Result<std::optional<BatchSolution>> solve_rebatch(const BatchCost& cost, const RebatchRequest& request) {
  if (!std::isfinite(request.wanted_gbs)) {
    return base::input_error(fmt::format("found a wanted batch of {}, expected a number", request.wanted_gbs));
  }
  if (request.most_gbs && *request.most_gbs < request.least_gbs) {
    return base::input_error(
        fmt::format("found batch bounds {} to {}, expected the lower one first", request.least_gbs, *request.most_gbs));
  }
  BatchRequest options = request.present;
  options.lbs.reset();
  YOKE_TRY(const BatchScope scope, batch_scope(cost, options));
  const Pool pool(cost, scope.nodes, options.idle_unit);
  const Idle idle = options.idle_unit ? Idle::kAllowed : Idle::kForbidden;

  const int present = options.gbs;
  const int largest = request.most_gbs.value_or(INT32_MAX);
  const double wanted = std::clamp<double>(request.wanted_gbs, request.least_gbs, largest);
  if (wanted == present) return std::optional<BatchSolution>();
  const bool grow = wanted > present;

  std::optional<BatchSolution> best;
  const auto better = [&](const BatchSolution& found) {
    if (!best) return true;
    const auto away = [&](const BatchSolution& of) { return std::abs(of.gbs - wanted); };
    const double near = kNearEnough * std::abs(wanted - present);
    const bool both_near = away(found) <= near && away(*best) <= near;
    if (!both_near && away(found) != away(*best)) return away(found) < away(*best);
    if (found.samples_per_second != best->samples_per_second) {
      return found.samples_per_second > best->samples_per_second;
    }
    return request.present.lbs == found.lbs;
  };
  for (const int lbs : scope.local_batch_sizes) {
    const double ideal = wanted / lbs;
    if (ideal > kMaxWorkers) continue;
    const WorkerSet totals = reachable_workers(cost, pool, lbs, options.unit, idle, static_cast<int>(ideal) + 1);
    WorkerRange range{.least = (std::max(request.least_gbs, 1) + lbs - 1) / lbs, .most = largest / lbs};
    if (grow) {
      range.least = std::max(range.least, present / lbs + 1);
    } else {
      range.most = std::min(range.most, (present - 1) / lbs);
    }
    const std::optional<int> workers = nearest_in(totals, range, ideal);
    if (!workers) continue;
    options.gbs = *workers * lbs;
    options.lbs = lbs;
    YOKE_TRY(BatchSolution found, solve_batch(cost, options));
    if (better(found)) best = std::move(found);
  }
  return best;
}

}  // namespace yoke::plan
