// `yoke explain PLAN`: where the time of a planned step goes, as a table and as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "yoke/base/files.h"
#include "yoke/base/units.h"
#include "yoke/cli/command.h"
#include "yoke/cli/plan.h"
#include "yoke/cli/table.h"
#include "yoke/plan/drawing.h"
#include "yoke/plan/plan.h"
#include "yoke/sim/costs.h"
#include "yoke/sim/simulator.h"
#include "yoke/sim/timeline.h"

namespace yoke::cli {
namespace {

struct ExplainOptions {
  std::string plan;
  std::string svg;
};

void print_data_lanes(const plan::Plan& plan, std::ostream& out) {
  using Align = Table::Align;
  Table table({{"lane"},
               {"vsw", Align::kRight},
               {"ga", Align::kRight},
               {"data", Align::kRight},
               {"forward", Align::kRight},
               {"backward", Align::kRight},
               {"bn sync", Align::kRight},
               {"all-reduce", Align::kRight},
               {"(hidden)", Align::kRight},
               {"update", Align::kRight},
               {"(hidden)", Align::kRight},
               {"step", Align::kRight},
               {"of the slowest"}});
  for (const auto& group : plan::group_lanes(plan)) {
    const auto& lane = group.lane;
    const auto& s = lane.seconds;
    const double share = s.total() / plan.step_seconds;
    table.add({fmt::format("{} x{}", group.node, group.devices), std::to_string(lane.vsw), std::to_string(lane.ga),
               base::format_seconds(s.data), base::format_seconds(s.forward), base::format_seconds(s.backward),
               base::format_seconds(s.bn_sync), base::format_seconds(s.all_reduce_exposed),
               base::format_seconds(s.all_reduce_hidden), base::format_seconds(s.update),
               base::format_seconds(s.update_hidden), base::format_seconds(s.total()),
               fmt::format("{:3.0f}% {}", share * 100, bar(share, 10))});
  }
  out << table.to_string();
}

/// `a:0-7 b:0`: neighbours are joined.
std::string describe(const std::vector<cluster::DeviceId>& devices) {
  std::string text;
  for (std::size_t i = 0; i < devices.size();) {
    std::size_t end = i + 1;
    while (end < devices.size() && devices[end].node == devices[i].node &&
           devices[end].index == devices[end - 1].index + 1) {
      ++end;
    }
    text += (i == 0 ? "" : " ") + devices[i].to_string();
    if (end - i > 1) text += fmt::format("-{}", devices[end - 1].index);
    i = end;
  }
  return text;
}

void print_pipeline_lane(const plan::PipelineLane& lane, std::ostream& out) {
  using Align = Table::Align;
  out << fmt::format("pipeline of {} stages, {} workers, schedule {}\n", lane.stages.size(), lane.workers,
                     lane.schedule);
  Table table({{"stage", Align::kRight},
               {"layers", Align::kRight},
               {"from"},
               {"to"},
               {"devices"},
               {"one worker", Align::kRight},
               {"compute", Align::kRight},
               {"transfers", Align::kRight},
               {"all-reduce", Align::kRight},
               {"memory", Align::kRight},
               {"of the slowest"}});
  double slowest = 0;
  for (const auto& stage : lane.stages) slowest = std::max(slowest, stage.pace_seconds());
  for (std::size_t i = 0; i < lane.stages.size(); ++i) {
    const auto& stage = lane.stages[i];
    const double share = slowest > 0 ? stage.pace_seconds() / slowest : 0;
    const auto& predicted = stage.predicted;
    const auto seconds = [&](double plan::StagePrediction::*part) {
      return predicted ? base::format_seconds((*predicted).*part) : "-";
    };
    table.add({std::to_string(i), std::to_string(stage.layers.size()), stage.layers.front(), stage.layers.back(),
               describe(stage.devices), base::format_seconds(stage.seconds),
               predicted ? seconds(&plan::StagePrediction::compute) : base::format_seconds(stage.pace_seconds()),
               seconds(&plan::StagePrediction::transfers), seconds(&plan::StagePrediction::all_reduce),
               predicted ? base::format(base::Bytes{static_cast<std::int64_t>(predicted->memory_bytes)}) : "-",
               fmt::format("{:3.0f}% {}", share * 100, bar(share, 10))});
  }
  out << table.to_string();
  out << "one worker: forward and backward on one device; compute, transfers and all-reduce: per worker, shared by the "
         "stage's devices; they overlap, the largest counts\n";
}

Json breakdown(const plan::Plan& plan) {
  Json lanes = Json::array();
  for (const auto& group : plan::group_lanes(plan)) {
    const auto& s = group.lane.seconds;
    lanes.push_back({{"node", group.node},
                     {"devices", group.devices},
                     {"vsw", group.lane.vsw},
                     {"ga", group.lane.ga},
                     {"data", s.data},
                     {"forward", s.forward},
                     {"backward", s.backward},
                     {"bn_sync", s.bn_sync},
                     {"all_reduce_exposed", s.all_reduce_exposed},
                     {"all_reduce_hidden", s.all_reduce_hidden},
                     {"update", s.update},
                     {"update_hidden", s.update_hidden},
                     {"step_seconds", s.total()}});
  }
  Json stages = Json::array();
  for (const auto& lane : plan.pipeline_lanes) {
    for (const auto& stage : lane.stages) {
      Json shown{{"layers", stage.layers}, {"replicas", stage.devices.size()}, {"seconds", stage.seconds}};
      if (const auto& predicted = stage.predicted) {
        shown["compute_seconds"] = predicted->compute;
        shown["transfer_seconds"] = predicted->transfers;
        shown["all_reduce_seconds"] = predicted->all_reduce;
        shown["memory_bytes"] = predicted->memory_bytes;
      }
      stages.push_back(std::move(shown));
    }
  }
  return {{"model", plan.model},
          {"gbs", plan.gbs},
          {"lbs", plan.lbs},
          {"workers", plan.workers()},
          {"sync", plan::to_string(plan.sync)},
          {"cost_model", plan.cost_model},
          {"source", profile::to_string(plan.source)},
          {"step_seconds", plan.step_seconds},
          {"samples_per_second", plan.samples_per_second()},
          {"lanes", std::move(lanes)},
          {"stages", std::move(stages)}};
}

/// The timeline of a pipeline whose times are known; else bars of where the time goes.
std::string draw(const plan::Plan& plan) {
  if (plan.pipeline_lanes.empty()) return plan::draw_step(plan);
  const auto priced = sim::price_as_predicted(plan);
  if (!priced.ok()) return plan::draw_step(plan);
  const auto report =
      sim::simulate(priced->schedule, priced->costs,
                    sim::Network::ideal(static_cast<int>(priced->schedule.programs.size())), {.record = true});
  return report.ok() ? sim::draw_timeline(priced->schedule, *report, timeline_title(plan)) : plan::draw_step(plan);
}

base::Status run_explain(const ExplainOptions& options, Context& context) {
  YOKE_TRY(const plan::Plan plan, plan::load_plan(options.plan));
  if (!options.svg.empty()) {
    YOKE_CHECK(base::publish_file(options.svg, draw(plan)));
    context.log.info("drew {}", options.svg);
  }
  if (context.json) {
    print_json(context, breakdown(plan));
    return {};
  }
  context.out << fmt::format(
      "{}: global batch {} = {} workers of {}, {} updates; predicted step {}, {:.1f} samples/s (cost model {})\n\n",
      plan.model, plan.gbs, plan.workers(), plan.lbs, plan::to_string(plan.sync),
      base::format_seconds(plan.step_seconds), plan.samples_per_second(), plan.cost_model);
  if (plan.source == profile::Source::kEstimate) context.out << kFromEstimates << "\n";
  if (!plan.data_lanes.empty()) print_data_lanes(plan, context.out);
  for (const auto& lane : plan.pipeline_lanes) print_pipeline_lane(lane, context.out);
  return {};
}

}  // namespace

base::Status save_plan(const plan::Plan& plan, const std::string& path, Context& context) {
  if (path.empty()) return {};
  YOKE_CHECK(plan::validate(plan));
  YOKE_CHECK(base::publish_file(path, plan::to_json(plan)));
  context.log.info("wrote {}; `yoke explain {}` shows it", path, path);
  return {};
}

void add_explain(CLI::App& app, Action& chosen) {
  add_command<ExplainOptions>(
      app, chosen, "explain", "show where the time of a planned step goes",
      [](Arguments& command, ExplainOptions& options) {
        command.required("plan", options.plan, "plan file");
        command.option("--svg", options.svg, "draw the step into this file");
      },
      run_explain);
}

}  // namespace yoke::cli
