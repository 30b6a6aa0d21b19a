#include "yoke/engine/running_span.h"

#include <algorithm>

namespace yoke::engine {
namespace {

/// Steps between two drains: few enough that a request to stop is soon met.
constexpr std::int64_t kLongestSpan = 200;

}  // namespace

RunningSpan::RunningSpan(const SpanParts& parts, const TrainingProgress& progress)
    : parts_(parts), shape_(parts.layout.step_shape()), updates_(progress.updates) {
  const auto& own = parts.layout.own();
  const auto& pipeline = parts.layout.plan().pipeline_lanes.front();
  rate_factor_ = plan::rate_factor_of(pipeline, own.stage);
  round_ = own.kind == plan::ScheduleKind::kStash ? own.replicas : pipeline.workers;
  const std::int64_t every = parts.job.checkpoint.every_steps;
  const std::int64_t most = std::min(kLongestSpan, every - progress.cursor.step % every);
  data::Cursor at = progress.cursor;
  do {
    cursors_.push_back(at);
    at = parts.sampler.advance(at, shape_);
  } while (at.epoch == progress.cursor.epoch && static_cast<std::int64_t>(cursors_.size()) < most);
}

base::Result<std::unique_ptr<RunningSpan>> RunningSpan::start(const SpanParts& parts, const TrainingProgress& progress,
                                                              StageLane& stage, base::Duration patience) {
  std::unique_ptr<RunningSpan> span(new RunningSpan(parts, progress));
  // Without a norm to clip by: check_runs_on().
  const plan::ScheduleRequest request{
      .steps = static_cast<int>(span->cursors_.size()),
      .last_step_workers = workers_with_samples(parts.sampler, span->cursors_.back(), span->shape_)};
  YOKE_TRY(const auto schedule, parts.layout.schedule_for(request, parts.reducer.bucket_counts()));
  YOKE_TRY(auto script, training_script(parts.layout, schedule));
  span->workers_ = schedule.workers;
  stage.start(
      std::move(script), [of = span.get()](int worker) { return of->take_work(worker); },
      [of = span.get()](const plan::ScheduleOp& op, const base::Deadline& by) { return of->reduce_or_update(op, by); },
      patience);
  return span;
}

const data::Cursor& RunningSpan::cursor_of(std::int64_t worker) const {
  return cursors_[static_cast<std::size_t>(worker / shape_.workers)];
}

/// Of workers `first` to `last` - 1 of the span.
std::int64_t RunningSpan::samples_of(std::int64_t first, std::int64_t last) const {
  std::int64_t samples = 0;
  for (std::int64_t worker = first; worker < last; ++worker) {
    samples += parts_.sampler.worker_samples(cursor_of(worker), shape_, worker % shape_.workers);
  }
  return samples;
}

Work RunningSpan::order(std::int64_t worker) {
  return parts_.orders.order(cursor_of(worker), worker % shape_.workers).value();
}

Work RunningSpan::take_work(std::int64_t worker) {
  const auto& own = parts_.layout.own();
  if (!own.first_stage()) return order(worker);
  // Samples are ordered ahead, as many as a few rounds need.
  const std::int64_t ahead = worker + (kStepsAhead + 1) * static_cast<std::int64_t>(own.replicas);
  next_to_order_ = std::max(next_to_order_, worker);
  for (; next_to_order_ <= ahead && next_to_order_ < workers_; next_to_order_ += own.replicas) {
    ordered_.emplace(next_to_order_, order(next_to_order_));
  }
  auto work = std::move(ordered_.at(worker));
  ordered_.erase(worker);
  return work;
}

/// Update number `version` is of the workers of round `version` - 1.
base::Status RunningSpan::reduce_or_update(const plan::ScheduleOp& op, const base::Deadline& deadline) {
  if (op.kind == plan::ScheduleOpKind::kReduce) return parts_.reducer.reduce(op, deadline);
  const std::int64_t first = static_cast<std::int64_t>(op.version - 1) * round_;
  const std::int64_t samples = samples_of(first, std::min(first + round_, workers_));
  const std::int64_t rounds_a_step = (shape_.workers + round_ - 1) / round_;
  const std::int64_t updates_before = updates_ + first / shape_.workers;
  const double rate = learning_rate_at(parts_.job, parts_.sampler.size(), cursor_of(first), updates_before);
  parts_.reducer.update(op, {.lr = rate_factor_ * rate,
                             .scale = static_cast<double>(shape_.lbs) / static_cast<double>(samples),
                             .clip_value = parts_.job.optimizer.clip_value,
                             .step = updates_ * rounds_a_step + op.version});
  return {};
}

}  // namespace yoke::engine
