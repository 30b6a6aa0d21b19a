// Solving again while training: the batch policy wants another global batch size, which in general no (lbs, workers)
// makes exactly. This finds the one to grant.
//
// For each local batch size the number of workers nearest to the wanted batch is taken, among those that have a
// placement, lie strictly on the wanted side of the present batch, and respect the bounds. So a wish is never lost in
// rounding: with 4 workers and a wish for 10 % more, 5 are granted. Of these grants, those within half of the change
// asked for compete by samples per second (ties: the present lbs, then the smaller); if none is that near, the nearest.
#pragma once

#include <optional>

#include "yoke/base/result.h"
#include "yoke/plan/solve/batch/batch.h"

namespace yoke::plan {

struct RebatchRequest {
  BatchRequest present;  // gbs and lbs in use, and the options that stay: sync, servers, units
  double wanted_gbs = 0;
  int least_gbs = 1;
  std::optional<int> most_gbs;
};

/// nullopt when the batch stays: the wish (within the bounds) is the present batch, or nothing on that side of it has a
/// placement. The present lbs is a preference only; every profiled one is tried.
base::Result<std::optional<BatchSolution>> solve_rebatch(const BatchCost& cost, const RebatchRequest& request);

}  // namespace yoke::plan
