// The best choice of devices for a given number of workers: all of them, or those that make the step shortest.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "yoke/plan/solve/batch/deal.h"
#include "yoke/plan/solve/batch/pool.h"
#include "yoke/plan/solve/batch/reach.h"

namespace yoke::plan {

/// `count` units of `size` devices of one class, all in use.
struct UnitGroup {
  int device_class = 0;
  int size = 1;
  int count = 0;
};

struct StepSetting {
  int lbs = 1;
  Sync sync = Sync::kOverlap;
  int unit = 1;  // devices that run the same number of workers
};

struct Choice {
  Counts counts;  // granules in use, per kind of the pool
  Extent extent;
  std::vector<UnitGroup> groups;
  Deal deal;  // by groups
};

/// The units of the chosen granules, grouped by class and size.
std::vector<UnitGroup> unit_groups(const Pool& pool, const Counts& counts, int unit);

/// Exactly these granules. nullopt when no step is shorter than `below`.
std::optional<Choice> deal_to(const BatchCost& cost, const Pool& pool, const Counts& counts, const StepSetting& setting,
                              int workers, double below = std::numeric_limits<double>::infinity());

struct ChoiceSearch {
  std::optional<Choice> best;  // absent when no step is shorter than asked for
  bool proven = true;          // false: cut short; a better choice may exist
};

/// Any granules. Equal times: fewer devices; then the first in a fixed order of search. Exact as long as at most
/// `most_choices` sets of devices remain after bounding (they do, except for adversarial costs); else not proven.
ChoiceSearch choose_devices(const BatchCost& cost, const Pool& pool, const StepSetting& setting, int workers,
                            double below = std::numeric_limits<double>::infinity(), int most_choices = 20000);

}  // namespace yoke::plan
