#include "yoke/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "yoke/base/document.h"
#include "yoke/base/files.h"
#include "yoke/base/json.h"
#include "yoke/base/text.h"

namespace yoke::plan {
namespace {

using base::input_error;
using base::Json;
using base::kCount;
using base::View;
using base::Where;

constexpr std::string_view kFormat = "yoke-plan";
constexpr int kVersion = 1;
/// A century: a longer step is a unit gone wrong, and sums of these cannot overflow.
constexpr base::Range kSeconds{.least = 0, .most = 3e9};
constexpr base::Range kMemoryBytes{.least = 0, .most = 1e18};
const std::vector<std::string> kSyncNames{"overlap", "sequential"};

struct PartName {
  const char* key;
  double StepParts::*part;
};
constexpr PartName kParts[] = {{"data", &StepParts::data},
                               {"forward", &StepParts::forward},
                               {"backward", &StepParts::backward},
                               {"bn_sync", &StepParts::bn_sync},
                               {"all_reduce_exposed", &StepParts::all_reduce_exposed},
                               {"update", &StepParts::update},
                               {"all_reduce_hidden", &StepParts::all_reduce_hidden},
                               {"update_hidden", &StepParts::update_hidden}};

cluster::DeviceId read_device(View view) {
  const auto device = cluster::DeviceId::parse(view.text());
  if (!device.ok()) {
    view.fail(device.error().message);
    return {};
  }
  return *device;
}

DataLane read_data_lane(View view) {
  DataLane lane;
  lane.device = read_device(view.field("device"));
  lane.vsw = static_cast<int>(view.field("vsw").integer({.least = 1, .most = 1e6}));
  lane.ga = static_cast<int>(view.field("ga").integer({.least = 0, .most = 1e6}));
  View seconds = view.field("seconds");
  for (const auto& [key, part] : kParts) lane.seconds.*part = seconds.field(key).number(kSeconds);
  seconds.done();
  view.done();
  return lane;
}

PipelineStage read_stage(View view) {
  PipelineStage stage;
  for (auto& layer : view.field("layers").items()) stage.layers.push_back(layer.text());
  for (auto& device : view.field("devices").items()) stage.devices.push_back(read_device(device));
  stage.seconds = view.field("seconds").number(kSeconds);
  if (auto warmup = view.find("warmup")) stage.warmup = static_cast<int>(warmup->integer({.least = 0, .most = 1e6}));
  if (auto predicted = view.find("predicted")) {
    stage.predicted = StagePrediction{.compute = predicted->field("compute").number(kSeconds),
                                      .transfers = predicted->field("transfers").number(kSeconds),
                                      .all_reduce = predicted->field("all_reduce").number(kSeconds),
                                      .memory_bytes = predicted->field("memory_bytes").number(kMemoryBytes)};
    predicted->done();
  }
  view.done();
  return stage;
}

PipelineLane read_pipeline_lane(View view) {
  PipelineLane lane;
  lane.schedule = view.field("schedule").text();
  lane.workers = static_cast<int>(view.field("workers").integer(kCount));
  lane.recompute = view.boolean_or("recompute", false);
  lane.vertical_sync = view.boolean_or("vertical_sync", false);
  for (auto& stage : view.field("stages").items()) lane.stages.push_back(read_stage(stage));
  view.done();
  return lane;
}

}  // namespace

std::int64_t Plan::workers() const {
  std::int64_t count = 0;
  for (const auto& lane : data_lanes) count += lane.workers();
  for (const auto& lane : pipeline_lanes) count += lane.workers;
  return count;
}

std::vector<cluster::DeviceId> Plan::devices() const {
  std::vector<cluster::DeviceId> all;
  for (const auto& lane : data_lanes) all.push_back(lane.device);
  for (const auto& lane : pipeline_lanes) {
    for (const auto& stage : lane.stages) all.insert(all.end(), stage.devices.begin(), stage.devices.end());
  }
  return all;
}

base::Status validate(const Plan& plan, const Where& where) {
  const auto fail = [&](std::string field, std::string message) -> base::Status {
    Where at = where;
    at.field = std::move(field);
    return input_error(std::move(message), at);
  };
  if (plan.lbs < 1) return fail("lbs", fmt::format("found {}, expected at least 1", plan.lbs));
  if (plan.data_lanes.empty() && plan.pipeline_lanes.empty())
    return fail("data_lanes", "found no lane, expected at least one");
  if (plan.workers() * plan.lbs != plan.gbs) {
    return fail("gbs", fmt::format("found {}, but the lanes run {} workers of {} samples = {}", plan.gbs,
                                   plan.workers(), plan.lbs, plan.workers() * plan.lbs));
  }
  if (!(plan.step_seconds >= 0) || !std::isfinite(plan.step_seconds)) {
    return fail("step_seconds", fmt::format("found {}, expected a finite number >= 0", plan.step_seconds));
  }
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(plan.model.begin(), plan.model.end(), control))
    return fail("model", fmt::format("found {}, expected a name on one line", base::quote(plan.model)));
  for (const auto& lane : plan.data_lanes) {
    if (plan.step_seconds > 0 && lane.seconds.total() > plan.step_seconds * (1 + 1e-6)) {
      return fail("data_lanes", fmt::format("the lane on {} takes {} s, longer than the step of {} s",
                                            lane.device.to_string(), lane.seconds.total(), plan.step_seconds));
    }
  }
  std::set<cluster::DeviceId> used;
  std::set<std::string_view> placed;
  const auto take = [&](const cluster::DeviceId& device) { return used.insert(device).second; };
  for (const auto& lane : plan.data_lanes) {
    if (!take(lane.device))
      return fail("data_lanes", fmt::format("the device {} is used twice", lane.device.to_string()));
  }
  for (const auto& lane : plan.pipeline_lanes) {
    if (lane.stages.empty()) return fail("pipeline_lanes", "found a lane without stages");
    if (lane.vertical_sync && lane.schedule != "1f1b-stash") {
      return fail("pipeline_lanes", fmt::format("found vertical_sync with the schedule {}, expected 1f1b-stash: the "
                                                "others use the same weights at every stage anyway",
                                                base::quote(lane.schedule)));
    }
    placed.clear();
    for (const auto& stage : lane.stages) {
      if (stage.layers.empty() || stage.devices.empty()) {
        return fail("pipeline_lanes",
                    fmt::format("found no {} in stages[{}], expected at least one in every stage",
                                stage.layers.empty() ? "layers" : "devices", &stage - lane.stages.data()));
      }
      for (const auto& layer : stage.layers) {
        if (!placed.insert(layer).second) {
          return fail("pipeline_lanes", fmt::format("the layer {} is in two stages", base::quote(layer)));
        }
      }
      for (const auto& device : stage.devices) {
        if (!take(device))
          return fail("pipeline_lanes", fmt::format("the device {} is used twice", device.to_string()));
      }
    }
  }
  return {};
}

base::Result<Plan> parse_plan(std::string_view json, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(json, file));
  base::Reader reader(document);
  View root = reader.root();
  base::expect_format(root, std::string(kFormat), kVersion);
  Plan plan;
  plan.model = root.field("model").text();
  plan.gbs = root.field("gbs").integer(kCount);
  plan.lbs = static_cast<int>(root.field("lbs").integer(kCount));
  plan.sync = static_cast<Sync>(root.field("sync").one_of(kSyncNames));
  plan.step_seconds = root.field("step_seconds").number(kSeconds);
  plan.cost_model = root.field("cost_model").text();
  if (auto source = root.find("source")) {
    plan.source = static_cast<profile::Source>(source->one_of({"measured", "estimate"}));
  }
  if (auto lanes = root.find("data_lanes")) {
    for (auto& lane : lanes->items()) plan.data_lanes.push_back(read_data_lane(lane));
  }
  if (auto lanes = root.find("pipeline_lanes")) {
    for (auto& lane : lanes->items()) plan.pipeline_lanes.push_back(read_pipeline_lane(lane));
  }
  root.done();
  if (!reader.ok()) return reader.error();
  YOKE_CHECK(validate(plan, {.file = file}));
  return plan;
}

base::Result<Plan> load_plan(const std::string& path) {
  YOKE_TRY(const std::string text, base::read_file(path));
  return parse_plan(text, path);
}

std::string to_json(const Plan& plan) {
  Json json{{"format", kFormat},
            {"version", kVersion},
            {"model", plan.model},
            {"gbs", plan.gbs},
            {"lbs", plan.lbs},
            {"sync", to_string(plan.sync)},
            {"cost_model", plan.cost_model},
            {"step_seconds", plan.step_seconds}};
  if (plan.source != profile::Source::kMeasured) json["source"] = profile::to_string(plan.source);
  if (!plan.data_lanes.empty()) {
    Json& lanes = json["data_lanes"] = Json::array();
    for (const auto& lane : plan.data_lanes) {
      Json seconds;
      for (const auto& [key, part] : kParts) seconds[key] = lane.seconds.*part;
      lanes.push_back(
          {{"device", lane.device.to_string()}, {"vsw", lane.vsw}, {"ga", lane.ga}, {"seconds", std::move(seconds)}});
    }
  }
  if (!plan.pipeline_lanes.empty()) {
    Json& lanes = json["pipeline_lanes"] = Json::array();
    for (const auto& lane : plan.pipeline_lanes) {
      Json stages = Json::array();
      for (const auto& stage : lane.stages) {
        Json devices = Json::array();
        for (const auto& device : stage.devices) devices.push_back(device.to_string());
        Json entry{{"layers", stage.layers}, {"devices", std::move(devices)}, {"seconds", stage.seconds}};
        if (stage.warmup) entry["warmup"] = *stage.warmup;
        if (const auto& predicted = stage.predicted) {
          entry["predicted"] = {{"compute", predicted->compute},
                                {"transfers", predicted->transfers},
                                {"all_reduce", predicted->all_reduce},
                                {"memory_bytes", predicted->memory_bytes}};
        }
        stages.push_back(std::move(entry));
      }
      Json entry{{"schedule", lane.schedule}, {"workers", lane.workers}, {"stages", std::move(stages)}};
      if (lane.recompute) entry["recompute"] = true;
      if (lane.vertical_sync) entry["vertical_sync"] = true;
      lanes.push_back(std::move(entry));
    }
  }
  return json.dump(1) + "\n";
}

}  // namespace yoke::plan
