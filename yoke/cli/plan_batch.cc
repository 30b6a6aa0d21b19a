// `yoke plan batch`: deals the workers of a global batch to the devices.
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <ostream>

#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/inputs.h"
#include "yoke/cli/plan.h"
#include "yoke/cli/table.h"
#include "yoke/plan/cost/choose_cost.h"
#include "yoke/plan/solve/batch/batch.h"

namespace yoke::cli {
namespace {

struct BatchOptions {
  InputOptions inputs;
  int gbs = 0;
  std::optional<int> lbs;  // absent: the best
  std::string sync = "recommend";
  std::vector<std::string> servers;
  int unit = 1;
  bool may_idle = false;
  std::string cost = "auto";
  std::string out;
};

base::Result<std::optional<plan::Sync>> parse_sync(const std::string& name) {
  if (name == "recommend") return std::optional<plan::Sync>();
  for (const auto sync : {plan::Sync::kOverlap, plan::Sync::kSequential}) {
    if (name == plan::to_string(sync)) return std::optional(sync);
  }
  const std::vector<std::string> names{"overlap", "sequential", "recommend"};
  return base::input_error(fmt::format("found {}, expected {}{}", base::quote(name), base::join_words(names, "or"),
                                       base::did_you_mean(name, names)),
                           {.field = "--sync"});
}

Json to_json(const plan::BatchSolution& solution, const plan::ChosenCost& cost, double solve_seconds) {
  Json nodes = Json::array();
  for (const auto& lane : solution.lanes) {
    nodes.push_back({{"node", lane.node},
                     {"devices", lane.devices},
                     {"vsw", lane.vsw},
                     {"ga", lane.ga},
                     {"first_device", lane.first_device},
                     {"seconds", lane.seconds},
                     {"limit", plan::to_string(lane.limit)}});
  }
  Json json{{"gbs", solution.gbs},
            {"lbs", solution.lbs},
            {"workers", solution.workers},
            {"sync", plan::to_string(solution.sync)},
            {"step_seconds", solution.step_seconds},
            {"samples_per_second", solution.samples_per_second},
            {"nodes", std::move(nodes)},
            {"proven", solution.proven},
            {"cost", cost.name},
            {"solve_seconds", solve_seconds}};
  if (const auto& equal = solution.equal_split) {
    json["equal_split"] = {{"gbs", equal->gbs},
                           {"lbs", equal->lbs},
                           {"workers_per_device", equal->workers_per_device},
                           {"step_seconds", equal->step_seconds},
                           {"samples_per_second", equal->samples_per_second}};
  }
  if (!cost.warnings.empty()) json["warnings"] = cost.warnings;
  return json;
}

/// What the same devices would do without a solver.
std::string describe(const plan::EqualSplit& equal, const plan::BatchSolution& solution) {
  if (!equal_split_seconds(solution))
    return fmt::format("\nequal split    not possible near this batch (the nearest is {})", equal.gbs);
  return fmt::format(
      "\nequal split    {}, {:.1f} samples/s ({} x {} samples on every device{}): this plan is {:.2f}x as fast",
      base::format_seconds(equal.step_seconds), equal.samples_per_second, equal.workers_per_device, equal.lbs,
      equal.gbs == solution.gbs ? "" : fmt::format(", global batch {}", equal.gbs),
      solution.samples_per_second / equal.samples_per_second);
}

/// `offered`: devices that the plan could have used.
void print(const plan::BatchSolution& solution, const cluster::Cluster& cluster, int offered, double solve_seconds,
           std::ostream& out) {
  out << fmt::format("global batch {} = {} workers of {} samples, {} updates\n\n", solution.gbs, solution.workers,
                     solution.lbs, plan::to_string(solution.sync));
  using Align = Table::Align;
  Table table({{"node"},
               {"device"},
               {"devices", Align::kRight},
               {"vsw", Align::kRight},
               {"ga", Align::kRight},
               {"samples", Align::kRight},
               {"step", Align::kRight},
               {"of the slowest"},
               {"limited by"}});
  int used = 0;
  for (const auto& lane : solution.lanes) {
    used += lane.devices;
    table.add({lane.node, cluster.find(lane.node)->type, std::to_string(lane.devices), std::to_string(lane.vsw),
               std::to_string(lane.ga), std::to_string(lane.devices * lane.vsw * (lane.ga + 1) * solution.lbs),
               base::format_seconds(lane.seconds), fmt::format("{:3.0f}% {}", lane.share * 100, bar(lane.share, 10)),
               std::string(plan::to_string(lane.limit))});
  }
  out << table.to_string();
  if (const int idle = offered - used; idle > 0) out << fmt::format("{} of {} devices stay idle\n", idle, offered);
  out << fmt::format("\npredicted step {}, {:.1f} samples/s", base::format_seconds(solution.step_seconds),
                     solution.samples_per_second);
  if (const auto& equal = solution.equal_split) out << describe(*equal, solution);
  out << fmt::format("\n{} in {}\n", solution.proven ? "proven optimal" : "best found",
                     base::format_seconds(solve_seconds));
}

/// Where every device must work and that is what fails, say what idle devices would allow.
base::Error with_idle_hint(base::Error error, const plan::BatchCost& cost, plan::BatchRequest request) {
  if (error.kind != base::ErrorKind::kInfeasible || request.idle_unit) return error;
  request.idle_unit = request.unit;
  const auto idle = plan::solve_batch(cost, request);
  if (idle.ok()) error.message += fmt::format("; with --may-idle it runs on {} of them", idle->extent.devices);
  return error;
}

base::Status run_batch(const BatchOptions& options, Context& context) {
  plan::BatchRequest request{.gbs = options.gbs, .lbs = options.lbs, .servers = options.servers, .unit = options.unit};
  YOKE_TRY(request.sync, parse_sync(options.sync));
  if (options.may_idle) request.idle_unit = options.unit;
  YOKE_TRY(const Inputs inputs, load_inputs(options.inputs, context));
  const base::Result<cluster::Cluster> offered =
      options.servers.empty() ? inputs.cluster : inputs.cluster.subset(options.servers);
  if (!offered.ok()) return option_error("--servers", offered.error().message);
  const auto chosen = plan::choose_cost(options.cost, inputs.cluster, inputs.profiles);
  if (!chosen.ok()) return at_option(chosen.error(), {"--cost"});
  const plan::BatchCost& cost = *chosen->model;
  for (const auto& warning : chosen->warnings) context.log.warning("{}", warning);
  const base::Instant started = context.clock.now();
  auto solved = plan::solve_batch(cost, request);
  if (!solved.ok()) return at_option(with_idle_hint(solved.error(), cost, request), {"--gbs", "--lbs", "--unit"});
  const plan::BatchSolution solution = *std::move(solved);
  const double solve_seconds = base::to_seconds(context.clock.now() - started);
  plan::Plan plan = to_plan(solution, inputs.profiles.model, chosen->name);
  plan.source = inputs.profiles.source();
  YOKE_CHECK(save_plan(plan, options.out, context));
  if (context.json) {
    Json json = to_json(solution, *chosen, solve_seconds);
    json["source"] = profile::to_string(plan.source);
    print_json(context, json);
  } else {
    print(solution, inputs.cluster, offered->device_count(), solve_seconds, context.out);
    if (plan.source == profile::Source::kEstimate) context.out << kFromEstimates << "\n";
  }
  return {};
}

}  // namespace

plan::Plan to_plan(const plan::BatchSolution& solution, const std::string& model, const std::string& cost) {
  plan::Plan plan{.model = model,
                  .gbs = solution.gbs,
                  .lbs = solution.lbs,
                  .sync = solution.sync,
                  .step_seconds = solution.step_seconds,
                  .cost_model = cost};
  for (const auto& lane : solution.lanes) {
    for (int i = 0; i < lane.devices; ++i) {
      plan.data_lanes.push_back(
          {.device = {lane.node, lane.first_device + i}, .vsw = lane.vsw, .ga = lane.ga, .seconds = lane.parts});
    }
  }
  return plan;
}

std::optional<double> equal_split_seconds(const plan::BatchSolution& solution) {
  const auto& equal = solution.equal_split;
  if (!equal) return std::nullopt;
  // An equal split may not exist at this very batch; far from it a comparison would say nothing.
  const double off = std::abs(equal->gbs - solution.gbs) / static_cast<double>(solution.gbs);
  if (off > 0.1) return std::nullopt;
  return solution.gbs / equal->samples_per_second;
}

void add_plan_batch(CLI::App& group, Action& chosen) {
  add_command<BatchOptions>(
      group, chosen, "batch", "deal the workers of a global batch to unlike devices",
      [](Arguments& command, BatchOptions& options) {
        options.inputs.declare(command);
        command.required("--gbs", options.gbs, "global batch size: samples of one update");
        command.option("--lbs", options.lbs, "local batch size: samples of one worker (default: the best profiled)");
        command.option("--sync", options.sync, "overlap, sequential or recommend");
        command.option("--servers", options.servers, "only these nodes, e.g. a,b");
        command.option("--unit", options.unit, "devices of a node that work alike");
        command.flag("--may-idle", options.may_idle, "leave devices idle (in units) where that is faster");
        command.option("--cost", options.cost, "iidp, measured, or auto: measured where the profiles allow it");
        command.option("--out", options.out, "write the plan file here");
      },
      run_batch);
}

}  // namespace yoke::cli
