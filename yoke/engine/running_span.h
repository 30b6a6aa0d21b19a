// A span: the steps between two drains of a pipeline that runs on from step to step (Layout::runs_on). The stage's
// thread executes passes, reduces and updates of the whole span at its own pace; the trainer follows it step by step.
// So the state is between two steps only when a span is over.
//
// The trainer owns one while it is under way, and keeps it until the stage's thread is through with it. That thread
// asks it for work and gives it reduces and updates; done() is the trainer's. The two share nothing that changes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/data/sampler.h"
#include "yoke/engine/lane.h"
#include "yoke/engine/layout.h"
#include "yoke/engine/reducer.h"
#include "yoke/engine/stage_lane.h"
#include "yoke/engine/training_progress.h"
#include "yoke/engine/work_orders.h"
#include "yoke/plan/job.h"

namespace yoke::engine {

/// What a span runs with, all borrowed.
struct SpanParts {
  const plan::Job& job;
  const Layout& layout;
  const data::Sampler& sampler;
  WorkOrders& orders;
  Reducer& reducer;
};

class RunningSpan {
 public:
  /// Plans the steps from `progress` on to the next drain and starts the stage with them: to the end of the epoch, or
  /// to the next checkpoint, or as many as a request to stop may have to wait for. `patience`: StageLane::start.
  static base::Result<std::unique_ptr<RunningSpan>> start(const SpanParts& parts, const TrainingProgress& progress,
                                                          StageLane& stage, base::Duration patience);
  RunningSpan(const RunningSpan&) = delete;
  RunningSpan& operator=(const RunningSpan&) = delete;

  /// Steps that the trainer has followed it through.
  int done() const { return done_; }
  /// Another one. Returns whether it was the last.
  bool finish_step() { return static_cast<std::size_t>(++done_) == cursors_.size(); }

 private:
  RunningSpan(const SpanParts& parts, const TrainingProgress& progress);

  // Called by the stage's thread.
  Work take_work(std::int64_t worker);
  base::Status reduce_or_update(const plan::ScheduleOp& op, const base::Deadline& deadline);

  Work order(std::int64_t worker);
  const data::Cursor& cursor_of(std::int64_t worker) const;
  std::int64_t samples_of(std::int64_t first, std::int64_t last) const;

  const SpanParts parts_;
  const data::StepShape shape_;
  const std::int64_t updates_;  // before it
  double rate_factor_ = 1;
  int round_ = 1;                      // workers that one update of this rank's stage is the mean of
  std::vector<data::Cursor> cursors_;  // of its steps
  std::int64_t workers_ = 0;           // of all its steps

  // The stage's thread's.
  std::map<std::int64_t, Work> ordered_;  // by worker of the span
  std::int64_t next_to_order_ = 0;

  int done_ = 0;  // the trainer's
};

}  // namespace yoke::engine
