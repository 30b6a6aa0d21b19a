// What a stage of a pipeline is to do: its part of a schedule, in the terms of the group's ranks. Plain values.
#pragma once

#include <cstddef>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/engine/layout.h"
#include "yoke/plan/schedule.h"

namespace yoke::engine {

/// The ops of one program, and who is who.
struct StageScript {
  std::vector<plan::ScheduleOp> ops;
  std::vector<int> ranks;  // of the group, by program
  int workers_per_step = 1;
  bool first_stage = true;
  bool last_stage = true;
  bool training = true;
  std::size_t unread_activations = 4;  // FlowMail::Unread
  std::size_t unread_gradients = 4;
};

/// This rank's part of a schedule of the layout's devices, to train with.
base::Result<StageScript> training_script(const Layout& layout, const plan::Schedule& schedule);
/// Of forward passes alone (Layout::evaluation_of).
StageScript evaluation_script(const Layout& layout, const plan::Schedule& schedule);

}  // namespace yoke::engine
