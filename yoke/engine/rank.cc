#include "yoke/engine/rank.h"

#include <fmt/format.h>

#include <algorithm>

#include "yoke/base/units.h"
#include "yoke/comm/op.h"
#include "yoke/data/dataset.h"
#include "yoke/engine/checkpoint/checkpoint.h"
#include "yoke/engine/first_plan.h"
#include "yoke/engine/job_parts.h"
#include "yoke/engine/median.h"
#include "yoke/engine/trainer.h"
#include "yoke/tensor/device.h"

namespace yoke::engine {
namespace {

constexpr std::size_t kWarmUpSteps = 3;  // not counted in the measured step time

class Run {
 public:
  Run(const RankOptions& options, std::unique_ptr<comm::Group> group, Observer& observer, const base::Clock& clock)
      : options_(options), group_(std::move(group)), observer_(observer), clock_(clock), first_(group_->rank() == 0) {}

  base::Result<RankResult> run() {
    auto result = train();
    if (!result.ok() && group_ && !group_->failure()) group_->abort(result.error().to_string());
    return result;
  }

 private:
  base::Result<RankResult> train() {
    const auto& device = options_.devices[static_cast<std::size_t>(group_->rank())];
    YOKE_TRY(device_, make_device(options_.job, device));
    YOKE_CHECK(open_data_sets());
    YOKE_CHECK(make_trainer(device));
    YOKE_TRY(const plan::Plan plan, choose_plan(device));  // measures, so before there is a state to keep
    YOKE_CHECK(resume());
    if (first_) observer_.on_plan(plan);
    std::vector<cluster::DeviceId> ids;
    for (const auto& each : options_.devices) ids.push_back(each.id);
    YOKE_CHECK(trainer_->configure(plan, std::move(group_), ids));
    auto result = steps(plan);
    if (result.ok()) {
      YOKE_CHECK(trainer_->group().run(comm::barrier(), base::Deadline::in(options_.patience, clock_)));
      YOKE_CHECK(trainer_->group().close());
    } else if (!trainer_->group().failure()) {
      trainer_->group().abort(result.error().to_string());
    }
    return result;
  }

  base::Status open_data_sets() {
    YOKE_TRY(train_, open_data(options_.job.data, data::Split::kTrain));
    YOKE_TRY(test_, open_test_data(options_.job.data));
    if (!test_ && first_) {
      observer_.on_event({.kind = "data", .detail = "no evaluation: the data set has no samples to test with"});
    }
    return {};
  }

  base::Status make_trainer(const DeviceSpec& device) {
    const auto& model = options_.job.model;
    YOKE_TRY(auto architecture, make_architecture(model, train_->info()));
    TrainerOptions how{.job = options_.job,
                       .architecture = std::move(architecture),
                       .train = train_.get(),
                       .test = test_.get(),
                       .device = device_.get(),
                       .speed = device.speed,
                       .trace = {.trace = options_.trace, .rank = group_->rank(), .origin = options_.trace_origin},
                       .patience = options_.patience,
                       .holds_all = !options_.plan || options_.plan->pipeline_lanes.empty()};
    if (options_.job.precision == plan::Precision::kFp16) how.loss_scale.emplace();
    YOKE_TRY(trainer_, Trainer::make(std::move(how), clock_));
    if (model.weights.empty()) return {};
    YOKE_TRY(const NamedTensors weights, read_safetensors(model.weights));
    return trainer_->load(weights, model.weights);
  }

  /// Rank 0 reads; the others get the state when they agree on it (Trainer::configure).
  base::Status resume() {
    if (!options_.resume || !first_ || options_.checkpoints.empty()) return {};
    std::vector<std::string> warnings;
    YOKE_TRY(const auto newest, load_newest(options_.checkpoints, warnings));
    for (auto& warning : warnings) observer_.on_event({.kind = "checkpoint", .detail = std::move(warning)});
    if (!newest) {
      observer_.on_event({.kind = "resume", .detail = "there is no checkpoint yet: starts from the beginning"});
      return {};
    }
    YOKE_CHECK(trainer_->restore(*newest, options_.checkpoints));
    observer_.on_event(
        {.kind = "resume",
         .detail = fmt::format("goes on after step {} (epoch {}, {} samples into it)", newest->meta.cursor.step,
                               newest->meta.cursor.epoch, newest->meta.cursor.consumed),
         .step = newest->meta.cursor.step});
    return {};
  }

  base::Result<plan::Plan> choose_plan(const DeviceSpec& device) {
    std::optional<int> at_most;
    // What a stage needs was the planner's business; measuring it would need the whole model here.
    if (options_.plan && !options_.plan->pipeline_lanes.empty()) return *options_.plan;
    if (options_.plan) {
      int most = 1;
      for (const auto& lane : options_.plan->data_lanes) {
        if (lane.device == device.id) most = lane.vsw;
      }
      YOKE_TRY(const bool fits, fits_memory(*trainer_, device, options_.plan->lbs, most));
      std::int64_t misfits = fits ? 0 : 1;
      YOKE_CHECK(group_->run(comm::all_reduce(std::span(&misfits, 1)), base::Deadline::in(options_.patience, clock_)));
      if (misfits == 0) return *options_.plan;
      at_most = std::max(1, options_.plan->lbs / 2);
    }
    YOKE_TRY(const FirstPlan first, measure_and_plan(*trainer_, *group_, options_, clock_, at_most));
    if (first_) {
      if (!first.note.empty()) observer_.on_event({.kind = "fallback", .detail = first.note});
      Event event{.kind = "plan",
                  .detail = fmt::format("planned by measuring: {} workers of {} samples, {} a step; sync: {}",
                                        first.plan.workers(), first.plan.lbs,
                                        base::format_seconds(first.plan.step_seconds), first.sync_reason),
                  .step = trainer_->cursor().step};
      event.values.emplace_back("predicted_step_seconds", first.plan.step_seconds);
      if (first.equal_split_step_seconds) {
        event.values.emplace_back("equal_split_step_seconds", *first.equal_split_step_seconds);
      }
      observer_.on_event(event);
    }
    return first.plan;
  }

  /// Every rank gives what it holds, rank 0 writes.
  base::Status save() {
    if (options_.checkpoints.empty() || saved_step_ == trainer_->cursor().step) return {};
    const auto begin = clock_.now();
    YOKE_TRY(const Checkpoint checkpoint, trainer_->snapshot());
    saved_step_ = trainer_->cursor().step;
    if (!first_) return {};
    YOKE_TRY(const std::string folder, save_checkpoint(options_.checkpoints, checkpoint, options_.job.checkpoint.keep));
    observer_.on_event({.kind = "checkpoint",
                        .detail = "saved " + folder,
                        .step = saved_step_,
                        .values = {{"seconds", base::to_seconds(clock_.now() - begin)}}});
    return {};
  }

  /// At the end of an epoch, if it had some.
  void tell_skipped(std::int64_t step) {
    const std::int64_t all = trainer_->skipped_samples();
    if (first_ && all > told_skipped_) {
      observer_.on_event(
          {.kind = "skip",
           .detail = fmt::format("{} corrupt samples were left out, {} since the start", all - told_skipped_, all),
           .step = step,
           .values = {{"skipped_samples", static_cast<double>(all)}}});
    }
    told_skipped_ = all;
  }

  base::Status evaluate(RankResult& result) {
    if (!test_) return {};
    YOKE_TRY(const Evaluation evaluation, trainer_->evaluate());
    result.test_loss = evaluation.loss;
    result.test_accuracy = evaluation.accuracy;
    if (first_) {
      observer_.on_event(
          {.kind = "evaluation",
           .detail = fmt::format("test accuracy {:.2f}% on {} samples", 100 * evaluation.accuracy, evaluation.samples),
           .step = trainer_->cursor().step,
           .values = {{"test_accuracy", evaluation.accuracy}, {"test_loss", evaluation.loss}}});
    }
    return {};
  }

  base::Result<RankResult> steps(const plan::Plan& plan) {
    RankResult result{.predicted_step_seconds = plan.step_seconds};
    std::vector<double> full_steps;
    bool stop = false;
    if (trainer_->finished()) YOKE_CHECK(evaluate(result));
    while (!trainer_->finished()) {
      YOKE_TRY(const StepReport report, trainer_->step(observer_.stop_requested()));
      if (first_) observer_.on_step(report);
      if (report.samples == report.gbs) full_steps.push_back(report.step_seconds);
      result.train_loss = report.loss;
      stop = stop || trainer_->wants_stop();
      if (!trainer_->at_rest()) continue;
      if (stop && !trainer_->finished()) {
        YOKE_CHECK(save());
        result.interrupted = true;
        if (first_) {
          observer_.on_event({.kind = "interrupt", .detail = "stopped on request, state saved", .step = report.step});
        }
        break;
      }
      const std::int64_t every = options_.job.checkpoint.every_steps;
      const bool epoch_ends = trainer_->cursor().consumed == 0;
      if (report.step % every == 0 || trainer_->finished()) YOKE_CHECK(save());
      if (epoch_ends) {
        tell_skipped(report.step);
        YOKE_CHECK(evaluate(result));
      }
    }
    if (full_steps.size() > 2 * kWarmUpSteps) full_steps.erase(full_steps.begin(), full_steps.begin() + kWarmUpSteps);
    result.measured_step_seconds = median(std::move(full_steps));
    const auto& cursor = trainer_->cursor();
    result.steps = cursor.step;
    result.samples = trainer_->total_samples();
    result.epochs = static_cast<double>(cursor.epoch) +
                    static_cast<double>(cursor.consumed) / static_cast<double>(train_->info().size);
    result.skipped_samples = trainer_->skipped_samples();
    YOKE_TRY(const Checkpoint last, trainer_->snapshot());
    if (first_) result.weights_sha256 = weights_sha256(last.weights);
    return result;
  }

  const RankOptions& options_;
  std::unique_ptr<comm::Group> group_;
  Observer& observer_;
  const base::Clock& clock_;
  const bool first_;
  std::unique_ptr<tensor::Device> device_;
  std::unique_ptr<data::Dataset> train_;
  std::unique_ptr<data::Dataset> test_;
  std::unique_ptr<Trainer> trainer_;  // uses everything above
  std::int64_t saved_step_ = -1;
  std::int64_t told_skipped_ = 0;
};

}  // namespace

int gpu_count() {
  return tensor::cuda_device_count();
}

void select_device(const DeviceSpec& device) {
  if (const auto cuda = cuda_index(device, tensor::cuda_device_count())) tensor::select_cuda_device(*cuda);
}

base::Result<RankResult> train_rank(const RankOptions& options, std::unique_ptr<comm::Group> group, Observer& observer,
                                    const base::Clock& clock) {
  base::require(options.devices.size() == static_cast<std::size_t>(group->size()), "one device for each rank");
  return Run(options, std::move(group), observer, clock).run();
}

}  // namespace yoke::engine
