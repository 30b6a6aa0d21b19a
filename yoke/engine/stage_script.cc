#include "yoke/engine/stage_script.h"

#include <algorithm>

namespace yoke::engine {
namespace {

StageScript script_of(const Layout& layout, const plan::Schedule& schedule, bool training) {
  const auto& own = layout.own_in(schedule);
  return {.ops = own.ops,
          .ranks = layout.ranks_in(schedule),
          .workers_per_step = std::max(1, schedule.step_workers),
          .first_stage = own.first_stage(),
          .last_stage = own.last_stage(),
          .training = training};
}

}  // namespace

base::Result<StageScript> training_script(const Layout& layout, const plan::Schedule& schedule) {
  StageScript script = script_of(layout, schedule, true);
  const auto& own = layout.own_in(schedule);
  // What is sent beyond the workers in flight was taken: else they would not be beyond.
  YOKE_TRY(const auto facts, plan::check(schedule));
  script.unread_activations = 1;
  script.unread_gradients = 1;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const auto& program = schedule.programs[i];
    if (program.lane != own.lane) continue;
    const auto in_flight = static_cast<std::size_t>(facts[i].peak_in_flight);
    if (&program == &own) script.unread_activations += in_flight;
    if (program.stage + 1 == own.stage) script.unread_gradients += in_flight;
  }
  return script;
}

StageScript evaluation_script(const Layout& layout, const plan::Schedule& schedule) {
  return script_of(layout, schedule, false);
}

}  // namespace yoke::engine
