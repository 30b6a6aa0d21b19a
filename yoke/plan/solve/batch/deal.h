// Deals an exact number of workers to groups of equal devices so that the slowest lane is as fast as possible. Exact:
// within a time bound each device has a set of worker counts it can run; the sums of those sets say whether the bound
// can be met; the smallest bound that can be met is the optimum. The cost grows with classes and workers; the number of
// devices in a group enters by its logarithm only.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "yoke/plan/solve/batch/class_lanes.h"

namespace yoke::plan {

/// `count` units of `size` devices each; the devices of a unit run the same number of workers.
struct LaneGroup {
  const ClassLanes* lanes = nullptr;  // borrowed during the call
  int size = 1;
  int count = 1;
};

struct Deal {
  double seconds = 0;  // of the slowest lane
  /// Workers per device, for every unit of every group, descending within a group.
  std::vector<std::vector<int>> workers;
};

/// Every device gets at least one worker. nullopt when no dealing takes less than `below` seconds. Among dealings of
/// equal time: groups get workers in proportion to what they could do, the devices of a group as equal as possible.
std::optional<Deal> deal_workers(std::span<const LaneGroup> groups, int workers,
                                 double below = std::numeric_limits<double>::infinity());

/// The time of deal_workers() without the dealing.
std::optional<double> deal_seconds(std::span<const LaneGroup> groups, int workers,
                                   double below = std::numeric_limits<double>::infinity());

}  // namespace yoke::plan
