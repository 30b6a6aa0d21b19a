// The artefact of planning: where each virtual worker of a step runs. A plan is an immutable value and a file
// (docs/formats/plan.md); what is printed is what runs. It holds no choice about the training math: any plan with the
// same `lbs` and number of workers computes the same update.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/plan/cost/batch_cost.h"
#include "yoke/profile/source.h"

namespace yoke::plan {

/// One device that holds the whole model and runs `work.workers()` workers a step.
struct DataLane {
  cluster::DeviceId device;
  int vsw = 1;
  int ga = 0;
  StepParts seconds;  // where the predicted time of its step goes

  int workers() const { return vsw * (ga + 1); }
  bool operator==(const DataLane&) const = default;
};

/// What the cost model foresaw for a stage: seconds of one worker, each shared by the stage's devices. They overlap:
/// the largest is what the stage takes.
struct StagePrediction {
  double compute = 0;
  double transfers = 0;
  double all_reduce = 0;
  double memory_bytes = 0;  // of one device

  double seconds() const { return std::max({compute, transfers, all_reduce}); }
  bool operator==(const StagePrediction&) const = default;
};

/// A contiguous part of the model on one or more devices, which share its workers.
struct PipelineStage {
  std::vector<std::string> layers;
  std::vector<cluster::DeviceId> devices;
  double seconds = 0;         // of one worker, forward and backward, on one of the devices; 0: not known
  std::optional<int> warmup;  // workers let in before the first backward pass; absent: the schedule's own rule
  std::optional<StagePrediction> predicted;

  /// How long a worker keeps the stage in a full pipeline; without a prediction, its compute alone.
  double pace_seconds() const {
    return predicted ? predicted->seconds() : seconds / static_cast<double>(devices.size());
  }
  bool operator==(const PipelineStage&) const = default;
};

/// A chain of stages with its workers as the micro-batches in flight.
struct PipelineLane {
  std::string schedule;
  int workers = 1;
  bool recompute = false;      // forward passes keep their input only and are done again before the backward pass
  bool vertical_sync = false;  // `1f1b-stash`: a worker uses the weights of its entry at every stage
  std::vector<PipelineStage> stages;
  bool operator==(const PipelineLane&) const = default;
};

struct Plan {
  std::string model;
  std::int64_t gbs = 0;
  int lbs = 0;
  Sync sync = Sync::kOverlap;
  std::vector<DataLane> data_lanes;
  std::vector<PipelineLane> pipeline_lanes;
  double step_seconds = 0;                              // predicted; 0: an imported plan that nobody has priced
  std::string cost_model;                               // which model predicted it; "none"
  profile::Source source = profile::Source::kMeasured;  // of the profiles that it was predicted from

  std::int64_t workers() const;
  /// Of data lanes, then of pipeline lanes, in the plan's order.
  std::vector<cluster::DeviceId> devices() const;
  /// 0 when the step was not predicted.
  double samples_per_second() const { return step_seconds > 0 ? static_cast<double>(gbs) / step_seconds : 0; }
  bool operator==(const Plan&) const = default;
};

/// Workers add up to gbs / lbs, no device is used twice, every lane does something, times are finite, vertical sync
/// only with `1f1b-stash`.
base::Status validate(const Plan& plan, const base::Where& where = {});

base::Result<Plan> parse_plan(std::string_view json, const std::string& file);
/// Read and validated.
base::Result<Plan> load_plan(const std::string& path);
/// JSON that parses back to an equal plan.
std::string to_json(const Plan& plan);

}  // namespace yoke::plan
