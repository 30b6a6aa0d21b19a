#include "yoke/engine/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>

#include "yoke/comm/op.h"
#include "yoke/engine/exchange.h"
#include "yoke/engine/layout.h"
#include "yoke/engine/reducer.h"
#include "yoke/engine/running_span.h"
#include "yoke/engine/snapshot.h"
#include "yoke/engine/stage_lane.h"
#include "yoke/engine/training_progress.h"
#include "yoke/engine/work_orders.h"
#include "yoke/plan/schedule_run.h"

namespace yoke::engine {
namespace {

/// Steps done, of a rank whose state is not to be taken.
constexpr std::int64_t kNoState = -1;

}  // namespace

struct Trainer::Core {
  explicit Core(TrainerOptions how, const base::Clock& time)
      : options(std::move(how)),
        clock(time),
        sampler(options.train->info().size, static_cast<std::uint64_t>(options.job.seed)) {
    if (options.loss_scale) progress.loss_scale.emplace(*options.loss_scale);
  }

  base::Deadline deadline() const { return base::Deadline::in(options.patience, clock); }
  Until until() const {
    return [this] { return deadline(); };
  }
  std::uint64_t seed() const { return static_cast<std::uint64_t>(options.job.seed); }
  const plan::Plan& plan() const { return layout->plan(); }
  data::StepShape shape() const { return layout->step_shape(); }

  // ---- what this rank holds ------------------------------------------------------------------------------------

  /// Makes this rank hold these blocks. What it held before is returned, so that its state is not lost; null if that is
  /// what it goes on with.
  base::Result<std::unique_ptr<Holding>> hold(const BlockRange& range) {
    if (holding && holding->range() == range) return std::unique_ptr<Holding>();
    lane.reset();
    stage.reset();
    YOKE_TRY(auto made, Holding::make(options.architecture, options.job, range, *options.device));
    return std::exchange(holding, std::move(made));
  }

  /// Before a plan says otherwise a rank holds the whole model.
  base::Status hold_all() {
    if (holding) return {};
    YOKE_CHECK(hold(whole_model()));
    return {};
  }

  BlockRange whole_model() const { return {.first = 0, .last = options.architecture.blocks.size()}; }

  LaneOptions lane_options() const {
    return {.speed = options.speed,
            .precision = options.job.precision,
            .loss = {.label_smoothing = options.job.label_smoothing},
            .trace = options.trace,
            .meet = options.meet};
  }

  DataLane& data_lane() {
    if (!lane) {
      lane = std::make_unique<DataLane>(options.architecture, holding->parameters(), holding->gradients(),
                                        *options.device, lane_options(), clock);
    }
    return *lane;
  }

  // ---- configuration -------------------------------------------------------------------------------------------

  base::Status configure(const plan::Plan& wanted, std::unique_ptr<comm::Group> in,
                         const std::vector<cluster::DeviceId>& devices) {
    if (static_cast<int>(devices.size()) != in->size()) {
      return base::input_error(fmt::format("{} devices for a group of {} ranks", devices.size(), in->size()));
    }
    base::require(!span, "another plan in the middle of a span");
    auto accepted = lay_out(wanted, *in, devices);
    if (!accepted.ok()) {
      // All ranks refuse it: none of them is lost, and the slower ones shall hear the reason and not that.
      (void)in->close().ok();
      return accepted.error();
    }
    stage.reset();
    reducer.reset();
    group = std::move(in);
    layout = std::make_unique<Layout>(*std::move(accepted));
    YOKE_CHECK(share_state());
    YOKE_TRY(reducer, Reducer::make(fmt::format("step-{}", progress.cursor.step), *layout, *holding, *group,
                                    *options.device, options.speed, options.trace, deadline(), clock));
    YOKE_CHECK(make_lane());
    progress.note_batch(plan().gbs, plan().lbs);
    return {};
  }

  base::Result<Layout> lay_out(const plan::Plan& wanted, comm::Group& in,
                               const std::vector<cluster::DeviceId>& devices) const {
    YOKE_CHECK(same_plan(wanted, in, deadline()));
    YOKE_TRY(Layout accepted, Layout::make(wanted, options.architecture, devices, in.rank()));
    if (accepted.runs_on()) YOKE_CHECK(check_runs_on(wanted, options.job, options.loss_scale.has_value()));
    return accepted;
  }

  /// This rank then holds the blocks of the layout, in the state of the rank that is furthest.
  base::Status share_state() {
    const bool fresh = !altered && !torn && progress.cursor.step == 0;
    const bool nothing_yet = holding == nullptr || torn;
    YOKE_TRY(const auto before, hold(layout->range()));
    if (group->size() == 1 && !before && !torn) return {};
    const Holding* kept = nothing_yet ? nullptr : (before ? before.get() : holding.get());
    auto numbers = progress.pack();
    const std::int64_t steps = torn ? kNoState : progress.cursor.step;
    YOKE_CHECK(agree({.now = holding.get(), .before = kept, .fresh = fresh, .steps = steps}, numbers,
                     options.architecture.blocks.size(), *group, deadline()));
    progress.unpack(numbers);
    torn = false;
    return {};
  }

  /// What runs this rank's part of a step.
  base::Status make_lane() {
    scripts.clear();
    const auto& own = layout->own();
    if (layout->runs_data_lane()) {
      stage.reset();
      data_lane().resize(plan().data_lanes[static_cast<std::size_t>(own.lane)].vsw);
    } else {
      lane.reset();
      stage =
          std::make_unique<StageLane>(options.architecture, *holding, *group, *options.device, lane_options(), clock);
    }
    if (!layout->runs_on()) {
      YOKE_TRY(const auto schedule, schedule_of({.steps = 1}));
      reducer_ops.clear();
      std::ranges::copy_if(layout->own_in(schedule).ops, std::back_inserter(reducer_ops), plan::on_reducer);
    }
    orders = std::make_unique<WorkOrders>(sampler, *options.train,
                                          WorkOptions{.seed = seed(),
                                                      .epochs = options.job.epochs,
                                                      .shape = shape(),
                                                      .own_workers = layout->own_workers(),
                                                      .loads_data = own.first_stage(),
                                                      .threads = static_cast<int>(options.job.data.threads)},
                                          clock);
    return {};
  }

  base::Result<plan::Schedule> schedule_of(plan::ScheduleRequest request) const {
    request.clip_norm = options.job.optimizer.clip_norm > 0 || progress.loss_scale.has_value();
    return layout->schedule_for(request, reducer->bucket_counts());
  }

  // ---- a step --------------------------------------------------------------------------------------------------

  /// Of a step over all ranks.
  struct Totals {
    double loss = 0;
    double skipped = 0;
    double stop = 0;
    double bad = 0;
  };

  bool finished() const { return static_cast<std::int64_t>(progress.cursor.epoch) >= options.job.epochs; }
  bool at_rest() const { return !span && !torn; }

  base::Result<StepReport> step(bool stop) {
    base::require(!finished(), "a step after the last epoch");
    base::require(!torn, "a step after one that failed");
    auto report = layout->runs_on() ? follow_step(stop) : whole_step(stop);
    if (!report.ok()) abandon(report.error());
    return report;
  }

  /// After a step that failed: some of it may have been applied, and nothing is to run on.
  void abandon(const base::Error& error) {
    torn = true;
    if (!span) return;
    stop_all(error);  // the stage's thread may be waiting for other ranks
    stage.reset();
    span.reset();
  }

  /// A step that begins and ends by itself.
  base::Result<StepReport> whole_step(bool stop) {
    const auto begin = clock.now();
    const auto by = deadline();
    auto work = orders->take_step(progress.cursor);
    const auto samples = samples_of_step(work, by);
    if (!samples.ok()) return stop_all(samples.error());
    const double factor = progress.loss_scale ? progress.loss_scale->factor() : 1;
    for (auto& one : work) one.loss_scale = factor;
    const Update how{
        .lr = rate(),
        .scale = *samples > 0 ? static_cast<double>(plan().lbs) / static_cast<double>(*samples) / factor : 0,
        .clip_value = options.job.optimizer.clip_value,
        .step = progress.updates + 1};
    YOKE_TRY(const bool updated, compute_and_update(std::move(work), how, by));
    YOKE_TRY(const Totals totals, add_up(last_lane, stop, by));
    YOKE_CHECK(reducer->share_buffers(by));
    if (totals.bad > 0) return not_finite(last_lane, how.lr, by);
    if (updated) ++progress.updates;
    return end_step(totals, *samples, how.lr, begin);
  }

  /// A step of a pipeline that runs on: its passes and updates are in the hands of the stage's thread.
  base::Result<StepReport> follow_step(bool stop) {
    const auto begin = clock.now();
    const auto by = deadline();
    if (!span) {
      const SpanParts parts{
          .job = options.job, .layout = *layout, .sampler = sampler, .orders = *orders, .reducer = *reducer};
      YOKE_TRY(span, RunningSpan::start(parts, progress, *stage, options.patience));
    }
    const double rate_now = rate();
    const std::int64_t samples = sampler.step_samples(progress.cursor, shape());
    const auto done = stage->reach(span->done() + 1);
    if (!done.ok()) return stop_all(done.error());
    YOKE_TRY(const Totals totals, add_up(*done, stop, by));
    if (totals.bad > 0) return not_finite(*done, rate_now, by);
    if (span->finish_step()) {
      const auto drained = stage->finish();
      if (!drained.ok()) return stop_all(drained.error());
      span.reset();
      YOKE_CHECK(reducer->share_buffers(by));
    }
    ++progress.updates;
    return end_step(totals, samples, rate_now, begin);
  }

  double rate() const { return learning_rate_at(options.job, sampler.size(), progress.cursor, progress.updates); }

  base::Result<std::int64_t> samples_of_step(std::vector<Work>& work, const base::Deadline& by) {
    if (options.job.data.corrupt != plan::CorruptPolicy::kSkip) return sampler.step_samples(progress.cursor, shape());
    return count_samples(work, shape(), *group, by);
  }

  /// The passes of this rank's workers, and beside them the reduces and updates. Returns whether there was an update.
  base::Result<bool> compute_and_update(std::vector<Work> work, const Update& how, const base::Deadline& by) {
    holding->gradients().begin(static_cast<int>(work.size()));
    std::optional<base::Result<LaneReport>> computed;
    if (stage) {
      YOKE_TRY(auto script, script_of_step());
      stage->start(std::move(script), std::move(work), by);
    } else if (runs_here()) {
      computed = lane->run_here(std::move(work), by);
    } else {
      lane->start(std::move(work), by);
    }
    const auto updated = reduce_and_update(how, by);
    // A stage may be waiting for messages that will not come any more.
    if (!updated.ok() && stage) stop_all(updated.error());
    if (!computed) computed = stage ? stage->finish() : lane->finish(after_peers(by));
    if (!computed->ok()) return stop_all(computed->error());
    if (updated.ok()) last_lane = **computed;
    return updated;
  }

  /// One worker at a time, and nothing to communicate before it is done.
  bool runs_here() const {
    const bool alone = group->size() == 1 || holding->parameters().buckets().size() == 1;
    return lane->vsw() == 1 && (alone || plan().sync == plan::Sync::kSequential);
  }

  /// Of the next step, which at the end of an epoch may have fewer workers than others.
  base::Result<StageScript> script_of_step() {
    const int workers = workers_with_samples(sampler, progress.cursor, shape());
    auto found = scripts.find(workers);
    if (found == scripts.end()) {
      YOKE_TRY(const auto schedule, schedule_of({.steps = 1, .last_step_workers = workers}));
      YOKE_TRY(auto script, training_script(*layout, schedule));
      found = scripts.emplace(workers, std::move(script)).first;
    }
    return found->second;
  }

  /// The reducer stream of this rank's program. Returns whether there was an update: not where a gradient overflowed.
  base::Result<bool> reduce_and_update(Update how, const base::Deadline& by) {
    if (plan().sync == plan::Sync::kSequential) YOKE_CHECK(reducer->wait_for_all(by));
    for (const auto& op : reducer_ops) {
      if (op.kind == plan::ScheduleOpKind::kReduce) {
        YOKE_CHECK(reducer->reduce(op, by));
      } else if (op.kind == plan::ScheduleOpKind::kUpdate) {
        reducer->update(op, how);
      } else {
        YOKE_TRY(const double squares, reducer->squared_norm(by));
        if (progress.loss_scale && !progress.loss_scale->judge(std::isfinite(squares))) return false;
        const double clip_norm = options.job.optimizer.clip_norm;
        if (clip_norm > 0) how.scale = clipped_scale(how.scale, squares, clip_norm);
      }
    }
    return true;
  }

  base::Result<Totals> add_up(const LaneReport& report, bool stop, const base::Deadline& by) {
    std::array<double, 4> sums{report.loss, static_cast<double>(report.skipped), stop ? 1.0 : 0.0,
                               report.bad_worker ? 1.0 : 0.0};
    YOKE_CHECK(group->run(comm::all_reduce(std::span(sums)), by));
    return Totals{.loss = sums[0], .skipped = sums[1], .stop = sums[2], .bad = sums[3]};
  }

  StepReport end_step(const Totals& totals, std::int64_t samples, double used_rate, base::Instant begin) {
    StepReport report{.step = progress.cursor.step + 1,
                      .epoch = progress.cursor.epoch,
                      .gbs = plan().gbs,
                      .lbs = plan().lbs,
                      .workers = plan().workers(),
                      .loss = samples > 0 ? totals.loss / static_cast<double>(samples) : 0,
                      .lr = used_rate,
                      .samples = samples};
    stopping = totals.stop > 0;
    progress.skipped_samples += static_cast<std::int64_t>(totals.skipped);
    progress.total_samples += samples;
    progress.last_loss = report.loss;
    progress.last_rate = used_rate;
    progress.cursor = sampler.advance(progress.cursor, shape());
    report.total_samples = progress.total_samples;
    report.total_steps = progress.cursor.step + steps_left(sampler, progress.cursor, shape(), options.job.epochs);
    report.step_seconds = base::to_seconds(clock.now() - begin);
    report.samples_per_second = static_cast<double>(samples) / report.step_seconds;
    return report;
  }

  /// This rank cannot go on: the others are told why. Where they have told this one, what they say is the reason.
  base::Error stop_all(const base::Error& error) {
    const auto told = group->failure();
    if (error.kind != base::ErrorKind::kPeer || !told) group->abort(error.to_string());
    const base::Error& reason = error.kind == base::ErrorKind::kPeer && told ? told->error : error;
    if (reducer) reducer->abort(reason.to_string());
    return reason;
  }

  base::Error not_finite(const LaneReport& report, double used_rate, const base::Deadline& by) {
    std::int64_t worker = report.bad_worker.value_or(-1);
    const auto shared = group->run(comm::all_reduce(std::span(&worker, 1), comm::Reduction::kMax), by);
    // All ranks know of it by now: one that is quick to end must not become the reason of the others.
    const std::string whose = shared.ok() ? fmt::format("worker {}", worker) : "a worker";
    return base::input_error(
        fmt::format("the loss of {} is not finite at step {} (epoch {}, lr {:g}); checkpoints from before are "
                    "kept. {}",
                    whose, progress.cursor.step + 1, progress.cursor.epoch, used_rate, kWhatHelps));
  }

  // ---- between steps -------------------------------------------------------------------------------------------

  base::Result<Evaluation> evaluate() {
    base::require(options.test != nullptr, "evaluation without test data");
    const EvaluatingLane on{.layout = *layout, .data = lane.get(), .stage = stage.get(), .here = lane && runs_here()};
    const auto share = evaluate_share(on, *options.test, static_cast<int>(options.job.data.threads), until(), clock);
    if (!share.ok()) return stop_all(share.error());
    std::array<double, 3> sums{share->loss, static_cast<double>(share->correct), static_cast<double>(share->samples)};
    YOKE_CHECK(group->run(comm::all_reduce(std::span(sums)), deadline()));
    return Evaluation{.loss = sums[2] > 0 ? sums[0] / sums[2] : 0,
                      .accuracy = sums[2] > 0 ? sums[1] / sums[2] : 0,
                      .samples = static_cast<std::int64_t>(sums[2])};
  }

  base::Result<Measurement> measure(int lbs, int vsw) {
    YOKE_CHECK(hold_all());
    base::require(holding->range() == whole_model(), "a measurement of a part of the model");
    return measure_passes(
        {.holding = *holding, .lane = data_lane(), .data = *options.train, .device = *options.device, .seed = seed()},
        lbs, vsw, options.patience, clock);
  }

  base::Result<Checkpoint> snapshot() {
    base::require(at_rest(), "a snapshot in the middle of a span");
    YOKE_CHECK(hold_all());
    return take_snapshot({.architecture = options.architecture,
                          .job = options.job,
                          .device = *options.device,
                          .holding = *holding,
                          .progress = progress,
                          .layout = layout.get(),
                          .group = group.get()},
                         until());
  }

  base::Status restore(const Checkpoint& checkpoint, const std::string& where) {
    YOKE_CHECK(hold_all());
    // Ranks that are gone may have had the other blocks: after a failure each one that is left takes all of them.
    if (torn) YOKE_CHECK(hold(whole_model()));
    YOKE_CHECK(restore_snapshot(checkpoint, where, options.architecture, sampler, *holding, progress));
    altered = true;
    torn = false;
    if (orders) orders->forget();
    return {};
  }

  base::Status load(const NamedTensors& weights, const std::string& where) {
    YOKE_CHECK(hold_all());
    YOKE_CHECK(load_weights(weights, where, *holding));
    altered = true;
    return {};
  }

  const TrainerOptions options;
  const base::Clock& clock;
  const data::Sampler sampler;

  // The state.
  std::unique_ptr<Holding> holding;  // from the first need on
  bool altered = false;              // weights are not those of the seed, though no update was made
  bool torn = false;                 // a step failed: the state may be one between two steps
  TrainingProgress progress;

  // How the next step runs: from configure() on.
  std::unique_ptr<Layout> layout;
  std::unique_ptr<comm::Group> group;
  std::unique_ptr<Reducer> reducer;
  std::vector<plan::ScheduleOp> reducer_ops;  // of a step
  std::map<int, StageScript> scripts;         // of a step, by its workers
  std::unique_ptr<WorkOrders> orders;
  std::unique_ptr<RunningSpan> span;  // under way

  // Of the last step.
  bool stopping = false;
  LaneReport last_lane;

  // Last: their threads use what is above. One of them at a time.
  std::unique_ptr<DataLane> lane;
  std::unique_ptr<StageLane> stage;
};

Trainer::Trainer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Trainer::~Trainer() = default;

base::Result<std::unique_ptr<Trainer>> Trainer::make(TrainerOptions options, const base::Clock& clock) {
  auto core = std::make_unique<Core>(std::move(options), clock);
  if (core->options.holds_all) YOKE_CHECK(core->hold_all());
  return std::unique_ptr<Trainer>(new Trainer(std::move(core)));
}

base::Status Trainer::configure(const plan::Plan& plan, std::unique_ptr<comm::Group> group,
                                const std::vector<cluster::DeviceId>& devices) {
  return core_->configure(plan, std::move(group), devices);
}

std::unique_ptr<comm::Group> Trainer::release_group() {
  return std::move(core_->group);
}

base::Result<StepReport> Trainer::step(bool stop) {
  return core_->step(stop);
}

bool Trainer::at_rest() const {
  return core_->at_rest();
}

bool Trainer::wants_stop() const {
  return core_->stopping;
}

bool Trainer::finished() const {
  return core_->finished();
}

base::Result<Evaluation> Trainer::evaluate() {
  return core_->evaluate();
}

const data::Cursor& Trainer::cursor() const {
  return core_->progress.cursor;
}

std::int64_t Trainer::skipped_samples() const {
  return core_->progress.skipped_samples;
}

std::int64_t Trainer::total_samples() const {
  return core_->progress.total_samples;
}

std::int64_t Trainer::steps_per_epoch() const {
  return core_->sampler.steps_per_epoch(core_->shape());
}

comm::Group& Trainer::group() {
  return *core_->group;
}

base::Result<Checkpoint> Trainer::snapshot() {
  return core_->snapshot();
}

base::Status Trainer::restore(const Checkpoint& checkpoint, const std::string& where) {
  return core_->restore(checkpoint, where);
}

base::Status Trainer::load(const NamedTensors& weights, const std::string& where) {
  return core_->load(weights, where);
}

base::Result<Measurement> Trainer::measure(int lbs, int vsw) {
  return core_->measure(lbs, vsw);
}

double Trainer::measure_update() {
  base::require(core_->progress.updates == 0, "the optimizer's state is not to be spoilt");
  base::require(core_->holding != nullptr, "nothing is held yet");
  return engine::measure_update(*core_->holding, core_->options.speed, core_->clock);
}

base::Result<double> Trainer::measure_all_reduce(comm::Group& group) {
  YOKE_CHECK(core_->hold_all());
  return engine::measure_all_reduce(*core_->holding, group, core_->options.patience, core_->clock);
}

StateBytes Trainer::state_bytes() const {
  return core_->holding ? core_->holding->bytes() : StateBytes{};
}

std::vector<double> Trainer::bucket_mebibytes() const {
  return engine::bucket_mebibytes(*core_->holding);
}

const LaneReport& Trainer::last_lane() const {
  return core_->last_lane;
}

}  // namespace yoke::engine
