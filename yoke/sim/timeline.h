// Pictures of a simulated run that was recorded (SimOptions::record).
#pragma once

#include <string>

#include "yoke/base/trace.h"
#include "yoke/plan/schedule.h"
#include "yoke/sim/simulator.h"

namespace yoke::sim {

/// Adds a process for each device, with threads for its passes, its reduces and updates, and its messages, and with the
/// memory it holds. The same shape as a measured trace.
void add_to_trace(const plan::Schedule& schedule, const SimReport& report, base::Trace& trace);

/// A row for each device and time from left to right: passes with their worker, reduces and updates beneath. SVG text.
/// Of many devices the first are drawn, and how many there are is said.
std::string draw_timeline(const plan::Schedule& schedule, const SimReport& report, const std::string& title);

}  // namespace yoke::sim
