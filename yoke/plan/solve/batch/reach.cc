#include "yoke/plan/solve/batch/reach.h"

#include <algorithm>

namespace yoke::plan {

std::vector<int> unit_sizes(int devices, int unit) {
  std::vector<int> sizes;
  if (devices >= unit) sizes.push_back(unit);
  if (devices % unit != 0) sizes.push_back(devices % unit);
  return sizes;
}

WorkerSet reachable_workers(const BatchCost& cost, const Pool& pool, int lbs, int unit, Idle idle, int most) {
  const int all_devices = pool.devices(pool.everything());
  // From any total, one more worker for each device of a unit makes the next one: nothing nearer lies further off.
  int largest_unit = 1;
  for (const GranuleKind& kind : pool.kinds()) largest_unit = std::max(largest_unit, std::min(unit, kind.devices));
  WorkerSet totals(std::max(most, all_devices) + largest_unit);

  const auto can_run = [&](const GranuleKind& kind) { return cost.max_vsw(kind.device_class, lbs) > 0; };
  if (idle == Idle::kForbidden) {
    if (!std::all_of(pool.kinds().begin(), pool.kinds().end(), can_run)) return totals;
    totals.insert(all_devices);
    for (const GranuleKind& kind : pool.kinds()) {
      for (const int size : unit_sizes(kind.devices, unit)) totals.close_under(size);
    }
    return totals;
  }
  WorkerSet with_none(totals.limit());  // totals of the kinds so far, nothing used included
  with_none.insert(0);
  for (const GranuleKind& kind : pool.kinds()) {
    if (!can_run(kind)) continue;
    // Using more granules of the kind reaches nothing that more workers on one do not.
    WorkerSet with_one(totals.limit());
    with_one.insert_shifted(with_none, kind.devices);
    for (const int size : unit_sizes(kind.devices, unit)) with_one.close_under(size);
    totals.insert_shifted(with_one, 0);
    with_none.insert_shifted(with_one, 0);
  }
  return totals;
}

std::optional<int> nearest_below(const WorkerSet& set, int workers) {
  for (int value = std::min(workers - 1, set.limit()); value > 0; --value) {
    if (set.contains(value)) return value;
  }
  return std::nullopt;
}

std::optional<int> nearest_above(const WorkerSet& set, int workers) {
  for (int value = std::max(workers + 1, 1); value <= set.limit(); ++value) {
    if (set.contains(value)) return value;
  }
  return std::nullopt;
}

}  // namespace yoke::plan
