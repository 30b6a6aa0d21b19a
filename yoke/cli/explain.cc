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

void print_pipeline_lane(const plan::PipelineLane& lane, std::ostream& out) {
  using Align = Table::Align;
  out << fmt::format("pipeline of {} stages, {} workers, schedule {}\n", lane.stages.size(), lane.workers,
                     lane.schedule);
  Table table({{"stage", Align::kRight},
               {"layers", Align::kRight},
               {"from"},
               {"to"},
               {"devices"},
               {"per worker", Align::kRight},
               {"per device", Align::kRight}});
  for (std::size_t i = 0; i < lane.stages.size(); ++i) {
    const auto& stage = lane.stages[i];
    std::vector<std::string> devices;
    for (const auto& device : stage.devices) devices.push_back(device.to_string());
    table.add({std::to_string(i), std::to_string(stage.layers.size()), stage.layers.front(), stage.layers.back(),
               fmt::format("{}", fmt::join(devices, " ")), base::format_seconds(stage.seconds),
               base::format_seconds(stage.seconds / static_cast<double>(stage.devices.size()))});
  }
  out << table.to_string();
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
    for (const auto& stage : lane.stages)
      stages.push_back({{"layers", stage.layers}, {"replicas", stage.devices.size()}, {"seconds", stage.seconds}});
  }
  return {{"model", plan.model},
          {"gbs", plan.gbs},
          {"lbs", plan.lbs},
          {"workers", plan.workers()},
          {"sync", plan::to_string(plan.sync)},
          {"cost_model", plan.cost_model},
          {"step_seconds", plan.step_seconds},
          {"samples_per_second", plan.samples_per_second()},
          {"lanes", std::move(lanes)},
          {"stages", std::move(stages)}};
}

base::Status run_explain(const ExplainOptions& options, Context& context) {
  YOKE_TRY(const plan::Plan plan, plan::load_plan(options.plan));
  if (!options.svg.empty()) {
    YOKE_CHECK(base::publish_file(options.svg, plan::draw_step(plan)));
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
