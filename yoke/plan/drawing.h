// Pictures of plans.
#pragma once

#include <string>

#include "yoke/plan/plan.h"

namespace yoke::plan {

/// Data lanes that do the same work at the same predicted time, which are drawn and printed as one row.
struct DrawnLane {
  std::string node;
  int devices = 0;
  DataLane lane;  // the first of them
};

/// Lanes grouped by node and work, in the plan's order.
std::vector<DrawnLane> group_lanes(const Plan& plan);

/// One bar per group of lanes from the start to the end of the step, cut into what the time is spent on; what runs
/// hidden is drawn beneath. Pipeline lanes are drawn as one bar per stage. SVG text.
std::string draw_step(const Plan& plan);

}  // namespace yoke::plan
