// Which numbers of workers a pool can run at all, whatever the time: every device in use needs a worker, and the
// devices of a unit have equally many. Answers "is there a solution?" and "which batch sizes nearby have one?".
#pragma once

#include <cstdint>
#include <optional>

#include "yoke/plan/solve/batch/pool.h"
#include "yoke/plan/solve/batch/worker_set.h"

namespace yoke::plan {

enum class Idle { kForbidden, kAllowed };

/// Sizes of the units that a granule of `devices` is divided into: `unit`, and what is left over.
std::vector<int> unit_sizes(int devices, int unit);

/// All reachable totals up to `most`, and at least one above it when there is any.
WorkerSet reachable_workers(const BatchCost& cost, const Pool& pool, int lbs, int unit, Idle idle, int most);

/// The nearest value on either side of `workers` (exclusive).
std::optional<int> nearest_below(const WorkerSet& set, int workers);
std::optional<int> nearest_above(const WorkerSet& set, int workers);

}  // namespace yoke::plan
