#include "yoke/engine/layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace yoke::engine {
namespace {

/// The stages of a lane, one after another, must be the model's blocks.
base::Status check_blocks(const plan::PipelineLane& lane, std::size_t number, const models::Architecture& model) {
  std::size_t next = 0;
  for (std::size_t s = 0; s < lane.stages.size(); ++s) {
    for (const auto& layer : lane.stages[s].layers) {
      const std::string expected =
          next < model.blocks.size() ? fmt::format("`{}`", model.blocks[next].name) : "no more";
      if (next >= model.blocks.size() || layer != model.blocks[next].name) {
        return base::input_error(
            fmt::format("stage {} has layer `{}` where model `{}` has {}; expected a plan for this "
                        "model, with its blocks in order",
                        s, layer, model.name, expected),
            {.field = fmt::format("pipeline_lanes[{}].stages[{}].layers", number, s)});
      }
      ++next;
    }
  }
  if (next == model.blocks.size()) return {};
  return base::input_error(fmt::format("the stages end before block `{}` of model `{}`; expected all {} blocks",
                                       model.blocks[next].name, model.name, model.blocks.size()),
                           {.field = fmt::format("pipeline_lanes[{}].stages", number)});
}

}  // namespace

base::Status check_runs_on(const plan::Plan& plan, const plan::Job& job, bool scales_loss) {
  const std::string& schedule = plan.pipeline_lanes.front().schedule;
  const auto refuse = [&](const char* what, const char* field) {
    return base::input_error(
        fmt::format("schedule `{}` does not go with {}, which all stages would have to wait for in "
                    "every step; use `1f1b-flush` or `gpipe`, or leave it out",
                    schedule, what),
        {.field = field});
  };
  if (job.optimizer.clip_norm > 0) return refuse("clipping by norm", "optimizer.clip_norm");
  if (scales_loss) return refuse("a loss scale", "precision");
  if (job.data.corrupt == plan::CorruptPolicy::kSkip) return refuse("skipping of corrupt samples", "data.corrupt");
  return {};
}

base::Result<Layout> Layout::make(const plan::Plan& plan, const models::Architecture& architecture,
                                  const std::vector<cluster::DeviceId>& devices, int rank) {
  Layout layout;
  layout.plan_ = plan;
  layout.devices_ = devices;
  for (std::size_t i = 0; i < plan.pipeline_lanes.size(); ++i) {
    YOKE_CHECK(check_blocks(plan.pipeline_lanes[i], i, architecture));
  }
  YOKE_TRY(layout.schedule_, plan::make_schedule(plan));

  std::vector<bool> busy(devices.size());
  for (const auto& program : layout.schedule_.programs) {
    const auto found = std::ranges::find(devices, program.device);
    if (found == devices.end()) {
      return base::input_error(fmt::format("the plan uses device {}, which is not among the {} of this run",
                                           program.device.to_string(), devices.size()));
    }
    const auto at = static_cast<std::size_t>(found - devices.begin());
    busy[at] = true;
    if (static_cast<int>(at) == rank) layout.own_ = layout.program_ranks_.size();
    layout.program_ranks_.push_back(static_cast<int>(at));
  }
  if (const auto idle = std::ranges::find(busy, false); idle != busy.end()) {
    return base::input_error(fmt::format("the plan gives device {} nothing to do; expected a lane for each device",
                                         devices[static_cast<std::size_t>(idle - busy.begin())].to_string()));
  }

  std::size_t first = 0;
  for (const auto& segment : layout.schedule_.segments) {
    const std::size_t count = segment.layers.empty() ? architecture.blocks.size() : segment.layers.size();
    layout.segments_.push_back({.first = first, .last = first + count});
    first += count;
  }
  const auto& held = layout.own().segments;
  layout.range_ = {.first = layout.segments_[static_cast<std::size_t>(held.front())].first,
                   .last = layout.segments_[static_cast<std::size_t>(held.back())].last};
  for (const int segment : held) {
    const std::size_t begin = layout.segments_[static_cast<std::size_t>(segment)].first;
    if (begin > layout.range_.first) layout.range_.cuts.push_back(begin);
  }
  return layout;
}

std::size_t Layout::segment_of(std::size_t block) const {
  const auto found = std::ranges::find_if(segments_, [&](const auto& range) { return range.contains(block); });
  base::require(found != segments_.end(), "a block outside the model");
  return static_cast<std::size_t>(found - segments_.begin());
}

std::vector<int> Layout::ranks_of(std::size_t segment) const {
  std::vector<int> ranks;
  for (const int holder : schedule_.segments[segment].holders) {
    ranks.push_back(program_ranks_[static_cast<std::size_t>(holder)]);
  }
  std::ranges::sort(ranks);
  return ranks;
}

int Layout::leader_of(std::size_t segment) const {
  for (const int holder : schedule_.segments[segment].holders) {
    const auto& program = schedule_.programs[static_cast<std::size_t>(holder)];
    if (program.lane == 0 && program.replica == 0) return program_ranks_[static_cast<std::size_t>(holder)];
  }
  base::require(false, "a segment that the first lane does not hold");
  return -1;
}

std::vector<std::int64_t> Layout::own_workers() const {
  std::vector<std::int64_t> workers;
  for (const auto& op : own().ops) {
    if (op.kind != plan::ScheduleOpKind::kForward) continue;
    for (int i = 0; i < op.count; ++i) workers.push_back(op.worker + i);
  }
  std::ranges::sort(workers);
  return workers;
}

base::Result<plan::Schedule> Layout::schedule_for(plan::ScheduleRequest request,
                                                  const std::vector<int>& buckets) const {
  request.buckets.assign(schedule_.segments.size(), 1);
  for (std::size_t i = 0; i < own().segments.size(); ++i) {
    request.buckets[static_cast<std::size_t>(own().segments[i])] = buckets[i];
  }
  return plan::make_schedule(plan_, request);
}

base::Result<plan::Schedule> Layout::evaluation_of(int batches) const {
  plan::Plan alone = plan_;
  alone.data_lanes.clear();
  const auto lane = static_cast<std::size_t>(own().lane) - plan_.data_lanes.size();
  alone.pipeline_lanes = {plan_.pipeline_lanes[lane]};
  alone.pipeline_lanes[0].workers = batches;
  alone.gbs = static_cast<std::int64_t>(batches) * alone.lbs;
  return plan::make_schedule(alone, {.forward_only = true});
}

const plan::DeviceProgram& Layout::own_in(const plan::Schedule& schedule) const {
  const auto found = std::ranges::find(schedule.programs, own().device, &plan::DeviceProgram::device);
  base::require(found != schedule.programs.end(), "a schedule without this device");
  return *found;
}

std::vector<int> Layout::ranks_in(const plan::Schedule& schedule) const {
  std::vector<int> ranks;
  for (const auto& program : schedule.programs) {
    ranks.push_back(static_cast<int>(std::ranges::find(devices_, program.device) - devices_.begin()));
  }
  return ranks;
}

}  // namespace yoke::engine
