// Small plans for the tests of schedules.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "yoke/base/rng.h"
#include "yoke/plan/schedule.h"

namespace yoke::plan {

inline PipelineLane pipeline(const std::string& schedule, int workers, const std::vector<int>& replicas,
                             const std::string& node = "p", int layers_per_stage = 2) {
  PipelineLane lane{.schedule = schedule, .workers = workers};
  int device = 0;
  int layer = 0;
  for (const int count : replicas) {
    PipelineStage stage{.seconds = 1};
    for (int i = 0; i < layers_per_stage; ++i) stage.layers.push_back("l" + std::to_string(layer++));
    for (int i = 0; i < count; ++i) stage.devices.push_back({node, device++});
    lane.stages.push_back(std::move(stage));
  }
  return lane;
}

inline Plan plan_of(std::vector<PipelineLane> pipelines, std::vector<DataLane> data = {}, Sync sync = Sync::kOverlap) {
  Plan plan{.model = "m", .lbs = 1, .sync = sync, .cost_model = "none"};
  plan.data_lanes = std::move(data);
  plan.pipeline_lanes = std::move(pipelines);
  plan.gbs = plan.workers();
  return plan;
}

inline DataLane data_lane(int device, int vsw, int ga) {
  return {.device = {"d", device}, .vsw = vsw, .ga = ga};
}

/// A plan and what is asked of its schedule.
struct Case {
  Plan plan;
  ScheduleRequest request;
  std::string name;
};
inline std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.name;
}

/// The same layers `l0` .. cut at random into stages with random replicas.
inline PipelineLane random_pipeline(base::Stream& random, const std::string& schedule, int layers, int lane) {
  const auto draw = [&](int least, int most) {
    return least + static_cast<int>(random.below(static_cast<std::uint64_t>(most - least + 1)));
  };
  PipelineLane result{.schedule = schedule, .workers = draw(1, 14)};
  const int stages = draw(1, 4);
  int device = 0;
  int layer = 0;
  for (int s = 0; s < stages; ++s) {
    PipelineStage stage{.seconds = 1};
    const int end = s + 1 == stages ? layers : draw(layer + 1, layers - (stages - s - 1));
    for (; layer < end; ++layer) stage.layers.push_back("l" + std::to_string(layer));
    const int replicas = draw(1, 4);
    for (int i = 0; i < replicas; ++i) stage.devices.push_back({"p" + std::to_string(lane), device++});
    result.stages.push_back(std::move(stage));
  }
  result.recompute = draw(0, 3) == 0;
  return result;
}

/// Any mix of lanes whose schedules go together.
inline Case random_case(base::Stream& random) {
  const auto draw = [&](int least, int most) {
    return least + static_cast<int>(random.below(static_cast<std::uint64_t>(most - least + 1)));
  };
  const int layers = draw(4, 9);
  const int kind = draw(0, 4);
  Case result;
  if (kind <= 2) {
    std::vector<PipelineLane> pipelines;
    std::vector<DataLane> data;
    const int lanes = draw(kind == 0 ? 0 : 1, 2);
    for (int i = 0; i < lanes; ++i) {
      pipelines.push_back(random_pipeline(random, draw(0, 1) == 0 ? "gpipe" : "1f1b-flush", layers, i));
    }
    const int data_lanes = draw(lanes == 0 ? 1 : 0, 3);
    for (int i = 0; i < data_lanes; ++i) data.push_back(data_lane(i, draw(1, 3), draw(0, 2)));
    result.plan = plan_of(std::move(pipelines), std::move(data));
    result.request.clip_norm = draw(0, 2) == 0;
  } else {
    PipelineLane lane = random_pipeline(random, kind == 3 ? "1f1b-stash" : "2bw", layers, 0);
    lane.vertical_sync = kind == 3 && draw(0, 1) == 0;
    // 2bw needs as many a step as are in flight.
    for (int s = 0; kind == 4 && s < static_cast<int>(lane.stages.size()); ++s) {
      const int replicas = static_cast<int>(lane.stages[static_cast<std::size_t>(s)].devices.size());
      lane.workers = std::max(lane.workers, (warmup_of(lane, s) + 1) * replicas);
    }
    result.plan = plan_of({std::move(lane)});
    result.request.clip_norm = kind == 4 && draw(0, 2) == 0;
  }
  result.plan.sync = draw(0, 1) == 0 ? Sync::kOverlap : Sync::kSequential;
  result.request.steps = draw(1, 4);
  if (draw(0, 1) == 0) result.request.last_step_workers = draw(1, static_cast<int>(result.plan.workers()));
  const auto segments = segments_of(result.plan);
  for (std::size_t i = 0; draw(0, 2) > 0 && i < segments->size(); ++i) {
    result.request.buckets.assign(segments->size(), draw(1, 3));
    result.request.buckets[i] = draw(0, 3);
  }
  return result;
}

}  // namespace yoke::plan
