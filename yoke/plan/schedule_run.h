// Executes a schedule without time: finds out whether it comes to its end. One thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "yoke/plan/schedule.h"

namespace yoke::plan {

/// Whether the op belongs to the reducer stream of its device.
inline bool on_reducer(const ScheduleOp& op) {
  return op.kind == ScheduleOpKind::kReduce || op.kind == ScheduleOpKind::kNorm || op.kind == ScheduleOpKind::kUpdate;
}

/// A device that waits for ever: the ops at which its streams stand; absent where a stream has come to its end.
struct Standstill {
  int program = 0;
  std::optional<std::size_t> compute;
  std::optional<std::size_t> reducer;
};

/// Executes as schedule.h says, every stream as far as it goes. The devices that do not come to the end of their lists;
/// empty: the schedule runs. Indices in the ops must be in range.
std::vector<Standstill> run_dry(const Schedule& schedule);

}  // namespace yoke::plan
