// Who does what under a plan: which rank runs which program of the schedule, which blocks it holds, and who shares
// which segment of the model with whom. A plain value, the same on every rank but for `own`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/data/sampler.h"
#include "yoke/engine/holding.h"
#include "yoke/models/model.h"
#include "yoke/plan/job.h"
#include "yoke/plan/plan.h"
#include "yoke/plan/schedule.h"

namespace yoke::engine {

/// Input error, at the key of the job, for what a pipeline that is not drained after each step cannot do.
base::Status check_runs_on(const plan::Plan& plan, const plan::Job& job, bool scales_loss);

class Layout {
 public:
  /// `devices` are those of the ranks. Input error if the plan uses a device that no rank has, leaves a rank without
  /// work, or has stages that are not contiguous ranges of the model's blocks, all of them, in order.
  static base::Result<Layout> make(const plan::Plan& plan, const models::Architecture& architecture,
                                   const std::vector<cluster::DeviceId>& devices, int rank);

  const plan::Plan& plan() const { return plan_; }
  /// Of a full step.
  data::StepShape step_shape() const { return {.workers = plan_.workers(), .lbs = plan_.lbs}; }
  const plan::DeviceProgram& own() const { return schedule_.programs[own_]; }
  const plan::Schedule& schedule() const { return schedule_; }
  /// Whether every rank holds the whole model.
  bool data_only() const { return plan_.pipeline_lanes.empty(); }
  /// Whether own() is a data lane.
  bool runs_data_lane() const { return own().kind == plan::ScheduleKind::kData; }
  /// Whether passes and updates run on from step to step; then there is one lane, a pipeline.
  bool runs_on() const { return !plan::keeps_the_math(own().kind); }

  /// Blocks that this rank holds.
  const BlockRange& range() const { return range_; }
  /// Of the whole model.
  std::size_t block_count() const { return segments_.back().last; }
  /// Blocks of a segment.
  const BlockRange& blocks_of(std::size_t segment) const { return segments_[segment]; }
  std::size_t segment_of(std::size_t block) const;
  /// Ranks that hold a segment, ascending.
  std::vector<int> ranks_of(std::size_t segment) const;
  /// The rank through which worker 0 goes in a segment: its buffers are those that count.
  int leader_of(std::size_t segment) const;
  /// Ranks by program of the schedule.
  const std::vector<int>& program_ranks() const { return program_ranks_; }

  /// Numbers of the workers of a full step that this rank runs, ascending.
  std::vector<std::int64_t> own_workers() const;

  /// The schedule of a span of steps. `buckets`: how many this rank has in each segment that it holds.
  base::Result<plan::Schedule> schedule_for(plan::ScheduleRequest request, const std::vector<int>& buckets) const;
  /// Forward passes of `batches` batches through this rank's pipeline lane; own_in() is its program.
  base::Result<plan::Schedule> evaluation_of(int batches) const;
  const plan::DeviceProgram& own_in(const plan::Schedule& schedule) const;
  /// Ranks by program of another schedule of these devices.
  std::vector<int> ranks_in(const plan::Schedule& schedule) const;

 private:
  plan::Plan plan_;
  plan::Schedule schedule_;  // of one full step, without buckets
  std::vector<cluster::DeviceId> devices_;
  std::vector<int> program_ranks_;
  std::vector<BlockRange> segments_;
  BlockRange range_;
  std::size_t own_ = 0;
};

}  // namespace yoke::engine
