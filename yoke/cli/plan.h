// The planning commands, and what they share.
#pragma once

#include <string>

#include "yoke/cli/command.h"
#include "yoke/plan/plan.h"

namespace yoke::cli {

void add_plan_batch(CLI::App& group, Action& chosen);
void add_plan_pipeline(CLI::App& group, Action& chosen);
void add_plan_scale(CLI::App& group, Action& chosen);

/// Publishes the plan file if the user asked for one (`path` not empty), and says so in the log.
base::Status save_plan(const plan::Plan& plan, const std::string& path, Context& context);

}  // namespace yoke::cli
