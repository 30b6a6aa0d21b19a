// `yoke plan scale`: which devices the next epoch should run on, by forecast, time and price.
#include <fmt/format.h>

#include <ostream>

#include "yoke/adapt/forecaster.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/inputs.h"
#include "yoke/cli/plan.h"
#include "yoke/cli/table.h"
#include "yoke/plan/cost/choose_cost.h"
#include "yoke/plan/solve/scale/scale.h"

namespace yoke::cli {
namespace {

struct ScaleOptions {
  InputOptions inputs;
  std::int64_t gbs = 0;
  std::int64_t samples = 0;
  int interval = 100;
  std::vector<double> trajectory;
  std::vector<std::string> history;
  std::int64_t min = 1;
  std::int64_t max = adapt::BatchBounds::kLargest;
  std::vector<std::string> present;
  std::string move_time = "0s";
  std::string objective = "time";
  std::string deadline;
  double budget = 0;
  int unit = 1;
};

/// `name:number`, the form of --history and --present.
struct Pair {
  std::string name;
  std::int64_t number = 0;
};

base::Result<Pair> parse_pair(const std::string& option, const std::string& text, std::string_view example) {
  const auto colon = text.rfind(':');
  const auto number = base::parse_integer(colon == std::string::npos ? "" : text.substr(colon + 1));
  if (!number.ok() || colon == 0)
    return option_error(option, fmt::format("found {}, expected {}", base::quote(text), example));
  return Pair{text.substr(0, colon), *number};
}

/// The batches of the coming epoch: as given, or forecast from the past.
base::Result<std::vector<double>> trajectory_of(const ScaleOptions& options) {
  if (!options.trajectory.empty() && !options.history.empty())
    return option_error("--history", "expected either --trajectory or --history");
  if (!options.trajectory.empty()) return options.trajectory;
  std::vector<adapt::BatchPoint> history;
  for (const auto& text : options.history) {
    YOKE_TRY(const Pair pair, parse_pair("--history", text, "step:batch pairs such as 100:256,200:282"));
    const auto step = base::parse_integer(pair.name);
    if (!step.ok()) return option_error("--history", step.error().message);
    history.push_back({.step = *step, .gbs = pair.number});
  }
  const adapt::EpochStart epoch{.step = history.empty() ? 0 : history.back().step,
                                .gbs = options.gbs,
                                .samples = options.samples,
                                .interval = options.interval};
  auto forecast = adapt::forecast_epoch(history, epoch, {.bounds = {.min = options.min, .max = options.max}});
  if (!forecast.ok()) return at_option(forecast.error(), {"--history", "--min"});
  return forecast;
}

base::Result<plan::ScaleRequest> to_request(const ScaleOptions& options) {
  if (options.gbs < 1) return option_error("--gbs", fmt::format("found {}, expected at least 1", options.gbs));
  if (options.samples < 1)
    return option_error("--samples", fmt::format("found {}, expected at least 1", options.samples));
  if (options.interval < 1)
    return option_error("--interval", fmt::format("found {} steps, expected at least 1", options.interval));
  plan::ScaleRequest request{.samples = options.samples, .interval = options.interval, .unit = options.unit};
  YOKE_TRY(request.trajectory, trajectory_of(options));
  for (const auto& text : options.present) {
    YOKE_TRY(const Pair pair, parse_pair("--present", text, "node:devices pairs such as node0:4,node1:2"));
    if (pair.number < 1 || pair.number > 1'000'000)
      return option_error("--present",
                          fmt::format("found {} devices on {}, expected at least 1", pair.number, pair.name));
    request.present.push_back({pair.name, static_cast<int>(pair.number)});
  }
  const auto move = base::parse_duration(options.move_time);
  if (!move.ok()) return option_error("--move-time", move.error().message);
  request.move_seconds = base::to_seconds(*move);
  const bool by_cost = options.objective == "cost";
  if (!by_cost && options.objective != "time")
    return option_error("--objective", fmt::format("found {}, expected time or cost", base::quote(options.objective)));
  if (by_cost) {
    if (options.deadline.empty())
      return option_error("--deadline", "objective cost needs a deadline for the epoch, e.g. 20min");
    if (options.budget != 0) return option_error("--budget", "belongs to objective time");
    const auto deadline = base::parse_duration(options.deadline);
    if (!deadline.ok()) return option_error("--deadline", deadline.error().message);
    request.goal = plan::ScaleGoal::kLowestCostWithinDeadline;
    request.deadline_seconds = base::to_seconds(*deadline);
  } else {
    if (!options.deadline.empty()) return option_error("--deadline", "belongs to objective cost");
    if (options.budget != 0) {
      request.goal = plan::ScaleGoal::kShortestTimeWithinBudget;
      request.budget = options.budget;
    }
  }
  return request;
}

Json to_json(const plan::ScaleOption& option) {
  Json nodes = Json::array();
  for (const auto& use : option.nodes) nodes.push_back({{"node", use.node}, {"devices", use.devices}});
  Json batches = Json::array();
  for (const auto& batch : option.batches) {
    batches.push_back({{"forecast", std::vector<double>{batch.least_forecast, batch.most_forecast}},
                       {"gbs", batch.gbs},
                       {"lbs", batch.lbs},
                       {"samples", batch.samples},
                       {"step_seconds", batch.step_seconds}});
  }
  Json json{{"nodes", std::move(nodes)}, {"epoch_seconds", option.seconds}, {"batches", std::move(batches)}};
  if (option.cost) json["epoch_cost"] = *option.cost;
  return json;
}

std::string describe(const plan::ScaleOption& option) {
  std::vector<std::string> uses;
  for (const auto& use : option.nodes) uses.push_back(fmt::format("{} x{}", use.node, use.devices));
  // A long list says less than its length.
  if (uses.size() > 8) {
    const auto more = uses.size() - 8;
    uses.resize(8);
    uses.push_back(fmt::format("{} more nodes", more));
  }
  return base::join_words(uses);
}

/// Which batches were priced: a forecast batch is rounded to whole workers.
std::string describe(const std::vector<plan::PricedBatch>& batches) {
  constexpr std::size_t kShown = 6;
  std::string text = "priced as";
  for (std::size_t i = 0; i < batches.size() && i < kShown; ++i) {
    const auto& batch = batches[i];
    const bool one = batch.least_forecast == batch.most_forecast;
    text += fmt::format("{} {} = {} x {} (forecast {:.0f}{})", i == 0 ? "" : ",", batch.gbs, batch.gbs / batch.lbs,
                        batch.lbs, batch.least_forecast, one ? "" : fmt::format(" to {:.0f}", batch.most_forecast));
  }
  if (batches.size() > kShown) text += fmt::format(" and {} more", batches.size() - kShown);
  return text;
}

void print(const plan::ScaleDecision& decision, const plan::ScaleRequest& request, double solve_seconds,
           std::ostream& out) {
  std::string batches;
  for (std::size_t i = 0; i < request.trajectory.size() && i < 12; ++i)
    batches += fmt::format("{}{:.0f}", i == 0 ? "" : " ", request.trajectory[i]);
  out << fmt::format("batches expected over the epoch: {}{}\n\n", batches,
                     request.trajectory.size() > 12 ? fmt::format(" ... ({} in all)", request.trajectory.size()) : "");
  using Align = Table::Align;
  Table table({{""}, {"epoch", Align::kRight}, {"cost", Align::kRight}, {"devices"}});
  const auto add = [&](std::string_view what, const plan::ScaleOption& option) {
    table.add({std::string(what), base::format_seconds(option.seconds),
               option.cost ? fmt::format("${:.2f}", *option.cost) : "-", describe(option)});
  };
  if (decision.stay) add("stay", *decision.stay);
  if (decision.move || !decision.stay) add(decision.stay ? "move" : "use", decision.chosen);
  out << table.to_string() << describe(decision.chosen.batches) << "\n";
  out << fmt::format("\n{}; {} of {:.0f} candidates solved in {}, {}\n",
                     decision.move   ? "moving pays"
                     : decision.stay ? "staying is best"
                                     : "best choice",
                     decision.solved, decision.candidates, base::format_seconds(solve_seconds),
                     decision.proven ? "proven optimal" : "search cut short");
}

base::Status run_scale(const ScaleOptions& options, Context& context) {
  YOKE_TRY(const plan::ScaleRequest request, to_request(options));
  YOKE_TRY(const Inputs inputs, load_inputs(options.inputs, context));
  YOKE_TRY(const plan::ChosenCost chosen, plan::choose_cost("auto", inputs.cluster, inputs.profiles));
  for (const auto& warning : chosen.warnings) context.log.warning("{}", warning);
  const base::Instant started = context.clock.now();
  const auto decided = plan::decide_scale(*chosen.model, request);
  if (!decided.ok()) {
    return at_option(decided.error(), {"--trajectory", "--samples", "--interval", "--unit", "--move-time", "--deadline",
                                       "--budget", "--present"});
  }
  const plan::ScaleDecision& decision = *decided;
  const double solve_seconds = base::to_seconds(context.clock.now() - started);
  if (!context.json) {
    print(decision, request, solve_seconds, context.out);
    if (inputs.profiles.source() == profile::Source::kEstimate) context.out << kFromEstimates << "\n";
    return {};
  }
  Json json{{"move", decision.move}, {"chosen", to_json(decision.chosen)}};
  if (decision.stay) json["stay"] = to_json(*decision.stay);
  json["trajectory"] = request.trajectory;
  json["candidates"] = decision.candidates;
  json["solved"] = decision.solved;
  json["proven"] = decision.proven;
  if (!chosen.warnings.empty()) json["warnings"] = chosen.warnings;
  json["source"] = profile::to_string(inputs.profiles.source());
  json["solve_seconds"] = solve_seconds;
  print_json(context, json);
  return {};
}

}  // namespace

void add_plan_scale(CLI::App& group, Action& chosen) {
  add_command<ScaleOptions>(
      group, chosen, "scale", "choose the devices of the next epoch by time or cost",
      [](Arguments& command, ScaleOptions& options) {
        options.inputs.declare(command);
        command.required("--gbs", options.gbs, "global batch size in force");
        command.required("--samples", options.samples, "samples of an epoch");
        command.option("--interval", options.interval, "steps between two decisions of the batch policy");
        command.option("--trajectory", options.trajectory, "batches expected, one per interval, e.g. 256,282,310");
        command.option("--history", options.history, "past batches to forecast from, e.g. 100:256,200:282");
        command.option("--min", options.min, "smallest batch of the forecast");
        command.option("--max", options.max, "largest batch of the forecast");
        command.option("--present", options.present,
                       "devices in use, e.g. node0:4,node1:2 (default: nothing runs yet)");
        command.option("--move-time", options.move_time, "time lost when the devices change");
        command.option("--objective", options.objective, "time, or cost with --deadline");
        command.option("--deadline", options.deadline, "longest epoch allowed, e.g. 20min");
        command.option("--budget", options.budget, "dollars an epoch may cost, with objective time");
        command.option("--unit", options.unit, "devices taken or given back together");
      },
      run_scale);
}

}  // namespace yoke::cli
