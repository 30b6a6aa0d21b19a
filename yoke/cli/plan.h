// The planning commands, and what they share.
#pragma once

#include <optional>
#include <string>

#include "yoke/cli/command.h"
#include "yoke/plan/plan.h"
#include "yoke/plan/solve/batch/batch.h"

namespace yoke::cli {

/// What people are told of a plan that rests on estimates.
inline constexpr std::string_view kFromEstimates =
    "from estimates, not from measurements: real steps may take a third more or less";

void add_plan_auto(CLI::App& group, Action& chosen);
void add_plan_batch(CLI::App& group, Action& chosen);
void add_plan_pipeline(CLI::App& group, Action& chosen);
void add_plan_scale(CLI::App& group, Action& chosen);

/// The solution as the artefact that runs; `model` names what was profiled, `cost` the cost model.
plan::Plan to_plan(const plan::BatchSolution& solution, const std::string& model, const std::string& cost);
/// What the same devices would take for a step of the same size without a solver; absent where no equal split comes
/// near this batch.
std::optional<double> equal_split_seconds(const plan::BatchSolution& solution);

/// What a picture of the plan's step is headed with.
std::string timeline_title(const plan::Plan& plan);

/// Publishes the plan file if the user asked for one (`path` not empty), and says so in the log.
base::Status save_plan(const plan::Plan& plan, const std::string& path, Context& context);

}  // namespace yoke::cli
