#include "yoke/sim/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "yoke/base/text.h"
#include "yoke/plan/device_speed.h"

namespace yoke::sim {
namespace {

using plan::DataLane;
using plan::PipelineLane;
using plan::PipelineStage;
using plan::Plan;
using plan::ScheduleRequest;
using profile::LayerGraph;

/// Of a whole pass, what is forward where nothing better is known: the backward pass does the work twice, for the
/// weights and for the input.
constexpr double kForwardPart = 1.0 / 3;

// As predicted
// ---------------------------------------------------------------------------------------------------------

base::Result<PricedSchedule> price_data_lanes(const Plan& plan, ScheduleRequest request) {
  request.buckets = {2};
  PricedSchedule priced;
  YOKE_TRY(priced.schedule, make_schedule(plan, request));
  priced.costs.bucket_bytes = {{0, 0}};
  for (std::size_t i = 0; i < plan.data_lanes.size(); ++i) {
    const DataLane& lane = plan.data_lanes[i];
    const plan::StepParts& parts = lane.seconds;
    if (!(parts.total() > 0)) {
      return base::input_error("the plan has no times; give a profile",
                               {.field = fmt::format("data_lanes[{}].seconds", i)});
    }
    const double rounds = lane.ga + 1;
    ProgramCosts cost{.round_workers = lane.vsw,
                      .load = (parts.data + parts.bn_sync) / rounds,
                      .forward = parts.forward / rounds,
                      .backward = parts.backward / rounds};
    // What ran hidden began with the last backward pass; if it filled that, more of the same may have come after it.
    cost.buckets = {{.ready = 0, .reduce_seconds = parts.all_reduce_hidden},
                    {.ready = 1, .reduce_seconds = parts.all_reduce_exposed, .update_seconds = parts.update}};
    priced.costs.programs.push_back(std::move(cost));
  }
  return priced;
}

/// Seconds of one message over each cut. A stage's transfers are those of both its sides, so they follow one from
/// another from the first stage on.
std::vector<double> cut_seconds(const PipelineLane& lane) {
  const auto never_drained = !plan::keeps_the_math(*plan::parse_schedule_kind(lane.schedule));
  std::vector<double> cuts;
  double before = 0;
  for (const PipelineStage& stage : lane.stages) {
    const double replicas = static_cast<double>(stage.devices.size());
    const double workers = lane.workers;
    const double share = never_drained ? 1 / replicas : std::ceil(workers / replicas) / workers;
    const double both = stage.predicted ? stage.predicted->transfers / (2 * share) : 0;
    before = std::max(0.0, both - before);
    cuts.push_back(before);
  }
  return cuts;
}

base::Result<PricedSchedule> price_pipelines(const Plan& plan, ScheduleRequest request) {
  PricedSchedule priced;
  request.buckets.clear();
  YOKE_TRY(priced.schedule, make_schedule(plan, request));
  const plan::Schedule& schedule = priced.schedule;
  for (const auto& segment : schedule.segments) priced.costs.bucket_bytes.emplace_back(segment.buckets, 0.0);
  for (const auto& program : schedule.programs) {
    const auto lane_index = static_cast<std::size_t>(program.lane);
    const PipelineLane& lane = plan.pipeline_lanes[lane_index];
    const auto stage_index = static_cast<std::size_t>(program.stage);
    const PipelineStage& stage = lane.stages[stage_index];
    if (!(stage.seconds > 0)) {
      return base::input_error(
          "the stage has no time; give a layer profile",
          {.field = fmt::format("pipeline_lanes[{}].stages[{}].seconds", lane_index, stage_index)});
    }
    const auto cuts = cut_seconds(lane);
    ProgramCosts cost{.forward = stage.seconds * kForwardPart,
                      .recompute = stage.seconds * kForwardPart,
                      .backward = stage.seconds * (1 - kForwardPart)};
    cost.activations.seconds = cuts[stage_index];
    if (stage_index > 0) cost.gradients.seconds = cuts[stage_index - 1];
    // Predicted per worker; an update has those of a step, or of a round of the replicas.
    const bool stash = program.kind == plan::ScheduleKind::kStash;
    const double workers = stash ? program.replicas : lane.workers;
    const double once = stage.predicted ? stage.predicted->all_reduce * workers : 0;
    const double buckets = static_cast<double>(program.segments.size());
    for (std::size_t i = 0; i < program.segments.size(); ++i) {
      cost.buckets.push_back({.ready = static_cast<double>(i + 1) / buckets, .reduce_seconds = once / buckets});
    }
    if (stage.predicted) cost.fixed_bytes = stage.predicted->memory_bytes;
    priced.costs.programs.push_back(std::move(cost));
  }
  return priced;
}

// With a layer profile
// -------------------------------------------------------------------------------------------------

/// A set of layers on a device, as the cost of passes needs it.
struct Range {
  double forward = 0;
  double backward = 0;
  double update = 0;
  double parameter_bytes = 0;
  double output_bytes = 0;
  double bytes_in = 0;      // over the cut before it
  double bytes_out = 0;     // over the cut after it
  std::vector<int> layers;  // by their place in topological order
};

class Pricer {
 public:
  Pricer(const Plan& plan, const LayerGraph& graph, const cluster::Cluster& cluster, const CostOptions& options)
      : plan_(plan), graph_(graph), cluster_(cluster), options_(options) {}

  base::Result<PricedSchedule> price(ScheduleRequest request) {
    YOKE_CHECK(number_layers());
    YOKE_TRY(const auto segments, plan::segments_of(plan_));
    YOKE_CHECK(cut_buckets(segments));
    request.buckets.clear();
    for (const auto& buckets : bucket_first_) request.buckets.push_back(static_cast<int>(buckets.size()));
    YOKE_TRY(priced_.schedule, make_schedule(plan_, request));
    YOKE_TRY(const plan::DeviceSpeeds speeds, plan::DeviceSpeeds::make(cluster_, options_.profiled_on));
    std::map<std::pair<int, int>, Range> ranges;  // by lane and stage
    for (const auto& program : priced_.schedule.programs) {
      YOKE_TRY(const double speed, speeds.of(program.device));
      const bool data = program.kind == plan::ScheduleKind::kData;
      const std::pair key{data ? -1 : program.lane, program.stage};
      auto found = ranges.find(key);
      if (found == ranges.end()) found = ranges.emplace(key, range_of(program)).first;
      priced_.costs.programs.push_back(cost_of(program, found->second, speed));
    }
    return std::move(priced_);
  }

 private:
  const profile::Layer& layer(int index) const { return graph_.layers()[static_cast<std::size_t>(index)]; }

  base::Status number_layers() {
    place_.resize(static_cast<std::size_t>(graph_.size()));
    for (int i = 0; i < graph_.size(); ++i) {
      const int at = graph_.topological_order()[static_cast<std::size_t>(i)];
      place_[static_cast<std::size_t>(at)] = i;
      index_.emplace(layer(at).id, at);
    }
    std::vector<std::string> ids;
    for (const auto& each : graph_.layers()) ids.push_back(each.id);
    for (std::size_t l = 0; l < plan_.pipeline_lanes.size(); ++l) {
      std::size_t placed = 0;
      for (std::size_t s = 0; s < plan_.pipeline_lanes[l].stages.size(); ++s) {
        for (const auto& id : plan_.pipeline_lanes[l].stages[s].layers) {
          ++placed;
          if (index_.contains(id)) continue;
          return base::input_error(
              fmt::format("the plan has the layer {}, which is not in the profile{}: is it a plan of another model?",
                          base::quote(id), base::did_you_mean(id, ids)),
              {.field = fmt::format("pipeline_lanes[{}].stages[{}].layers", l, s)});
        }
      }
      if (placed != ids.size()) {
        return base::input_error(
            fmt::format("the plan has {} layers, the profile {}; {} is in no stage: is it a plan of another model?",
                        placed, ids.size(), base::quote(first_missing(plan_.pipeline_lanes[l]))),
            {.field = fmt::format("pipeline_lanes[{}].stages", l)});
      }
    }
    return {};
  }

  std::string first_missing(const PipelineLane& lane) const {
    std::map<std::string_view, bool> there;
    for (const auto& stage : lane.stages) {
      for (const auto& id : stage.layers) there[id] = true;
    }
    for (const auto& each : graph_.layers()) {
      if (!there.contains(each.id)) return each.id;
    }
    return "";
  }

  /// The layers of a segment in topological order.
  std::vector<int> layers_of(const plan::Segment& segment) const {
    std::vector<int> layers;
    if (segment.layers.empty()) {
      layers = graph_.topological_order();
    } else {
      for (const auto& id : segment.layers) layers.push_back(index_.at(id));
      std::sort(layers.begin(), layers.end(), [&](int a, int b) { return place(a) < place(b); });
    }
    return layers;
  }

  int place(int layer_index) const { return place_[static_cast<std::size_t>(layer_index)]; }

  base::Status cut_buckets(const std::vector<plan::Segment>& segments) {
    for (const auto& segment : segments) {
      const auto layers = layers_of(segment);
      std::vector<plan::Parameter> parameters;
      double total = 0;
      for (const int each : layers) {
        const double elements = layer(each).parameter_bytes / static_cast<double>(options_.buckets.element_bytes);
        parameters.push_back({layer(each).id, static_cast<std::int64_t>(std::min(elements, 4e18))});
        total += elements;
      }
      auto& first = bucket_first_.emplace_back();
      auto& bytes = priced_.costs.bucket_bytes.emplace_back();
      if (total < 1) continue;  // nothing to update
      YOKE_TRY(const auto buckets, plan::cut_into_buckets(parameters, options_.buckets));
      for (const auto& bucket : buckets) {
        bytes.push_back(static_cast<double>(bucket.bytes.count));
        int earliest = std::numeric_limits<int>::max();
        for (const auto& slot : bucket.slots) earliest = std::min(earliest, place(layers[slot.parameter]));
        first.push_back(earliest);
      }
    }
    return {};
  }

  Range range_of(const plan::DeviceProgram& program) const {
    Range range;
    for (const int segment : program.segments) {
      for (const int each : layers_of(priced_.schedule.segments[static_cast<std::size_t>(segment)])) {
        range.layers.push_back(place(each));
        range.forward += layer(each).forward_ms / 1000;
        range.backward += layer(each).backward_ms / 1000;
        range.update += layer(each).update_ms / 1000;
        range.parameter_bytes += layer(each).parameter_bytes;
        range.output_bytes += layer(each).activation_bytes();
      }
    }
    std::sort(range.layers.begin(), range.layers.end());
    if (program.kind == plan::ScheduleKind::kData) return range;
    const auto cuts = cut_bytes(program.lane - static_cast<int>(plan_.data_lanes.size()));
    range.bytes_in = program.first_stage() ? 0 : cuts[static_cast<std::size_t>(program.stage - 1)];
    range.bytes_out = program.last_stage() ? 0 : cuts[static_cast<std::size_t>(program.stage)];
    return range;
  }

  /// After each stage of a lane: outputs of layers up to there that a later stage needs, once each. They pass through
  /// the stages between.
  std::vector<double> cut_bytes(int lane_index) const {
    const PipelineLane& lane = plan_.pipeline_lanes[static_cast<std::size_t>(lane_index)];
    std::vector<int> stage_of(static_cast<std::size_t>(graph_.size()), 0);
    for (std::size_t s = 0; s < lane.stages.size(); ++s) {
      for (const auto& id : lane.stages[s].layers)
        stage_of[static_cast<std::size_t>(index_.at(id))] = static_cast<int>(s);
    }
    std::vector<double> cuts(lane.stages.size(), 0.0);
    for (int each = 0; each < graph_.size(); ++each) {
      int last = 0;
      for (const int to : graph_.successors(each)) last = std::max(last, stage_of[static_cast<std::size_t>(to)]);
      for (int s = stage_of[static_cast<std::size_t>(each)]; s < last; ++s) {
        cuts[static_cast<std::size_t>(s)] += layer(each).activation_bytes();
      }
    }
    return cuts;
  }

  ProgramCosts cost_of(const plan::DeviceProgram& program, const Range& range, double speed) const {
    ProgramCosts cost{.forward = range.forward / speed,
                      .recompute = range.forward / speed,
                      .backward = range.backward / speed,
                      .activations = {.bytes = range.bytes_out},
                      .gradients = {.bytes = range.bytes_in},
                      .worker_bytes = range.output_bytes + range.bytes_in,
                      .input_bytes = range.bytes_in,
                      .weight_bytes = range.parameter_bytes,
                      .fixed_bytes = range.parameter_bytes * (1 + options_.optimizer_copies)};
    double update_seconds = 0;
    if (program.kind == plan::ScheduleKind::kData) {
      const DataLane& lane = plan_.data_lanes[static_cast<std::size_t>(program.lane)];
      const auto& parts = lane.seconds;
      cost.round_workers = lane.vsw;
      const double rounds = lane.ga + 1;
      if (graph_.lbs()) cost.worker_bytes *= static_cast<double>(plan_.lbs) / *graph_.lbs();
      if (parts.forward + parts.backward > 0) {
        cost.load = (parts.data + parts.bn_sync) / rounds;
        cost.forward = parts.forward / rounds;
        cost.backward = parts.backward / rounds;
        update_seconds = parts.update + parts.update_hidden;
      } else {
        cost.forward *= lane.vsw;
        cost.backward *= lane.vsw;
      }
    }
    if (update_seconds == 0 && options_.update_bytes_per_s > 0) {
      update_seconds = range.parameter_bytes / options_.update_bytes_per_s / speed;
    }
    if (update_seconds == 0) update_seconds = range.update / speed;
    // Backward seconds of this device's layers at or after each place.
    double total = 0;
    std::map<int, double> done;
    for (auto at = range.layers.rbegin(); at != range.layers.rend(); ++at) {
      total += layer(graph_.topological_order()[static_cast<std::size_t>(*at)]).backward_ms;
      done[*at] = total;
    }
    for (auto segment = program.segments.rbegin(); segment != program.segments.rend(); ++segment) {
      const auto s = static_cast<std::size_t>(*segment);
      for (std::size_t b = 0; b < bucket_first_[s].size(); ++b) {
        const double bytes = priced_.costs.bucket_bytes[s][b];
        cost.buckets.push_back(
            {.ready = total > 0 ? done.at(bucket_first_[s][b]) / total : 1,
             .update_seconds = range.parameter_bytes > 0 ? update_seconds * bytes / range.parameter_bytes : 0});
      }
    }
    return cost;
  }

  const Plan& plan_;
  const LayerGraph& graph_;
  const cluster::Cluster& cluster_;
  const CostOptions& options_;
  std::map<std::string, int, std::less<>> index_;  // layer by id
  std::vector<int> place_;                         // of a layer, in topological order
  std::vector<std::vector<int>> bucket_first_;     // by segment and bucket: the earliest place among its layers
  PricedSchedule priced_;
};

}  // namespace

base::Result<PricedSchedule> price_as_predicted(const Plan& plan, ScheduleRequest request) {
  if (!plan.data_lanes.empty() && !plan.pipeline_lanes.empty()) {
    return base::input_error(
        "found data lanes and pipeline lanes, whose shared gradients the plan does not size; give a "
        "layer profile",
        {.field = "pipeline_lanes"});
  }
  return plan.pipeline_lanes.empty() ? price_data_lanes(plan, std::move(request))
                                     : price_pipelines(plan, std::move(request));
}

base::Result<PricedSchedule> price_with_profile(const Plan& plan, const LayerGraph& graph,
                                                const cluster::Cluster& cluster, const CostOptions& options,
                                                ScheduleRequest request) {
  return Pricer(plan, graph, cluster, options).price(std::move(request));
}

std::optional<MemoryExcess> memory_excess(const plan::Schedule& schedule, const std::vector<double>& peak_bytes,
                                          const cluster::Cluster& cluster) {
  for (std::size_t d = 0; d < schedule.programs.size(); ++d) {
    const cluster::Node* node = cluster.find(schedule.programs[d].device.node);
    if (node == nullptr || !node->memory) continue;
    const double limit = static_cast<double>(node->memory->count);
    if (peak_bytes[d] > limit) return MemoryExcess{static_cast<int>(d), peak_bytes[d], limit};
  }
  return std::nullopt;
}

}  // namespace yoke::sim
