#include "yoke/engine/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>

#include "yoke/comm/op.h"
#include "yoke/engine/exchange.h"
#include "yoke/engine/holding.h"
#include "yoke/engine/layout.h"
#include "yoke/engine/optimizer/lr.h"
#include "yoke/engine/reducer.h"
#include "yoke/engine/stage_lane.h"
#include "yoke/engine/tensor_copies.h"

namespace yoke::engine {
namespace {

constexpr int kStepsAhead = 2;  // whose samples are ordered before they are needed
// Steps between two drains of a pipeline that runs on: few enough that a request to stop is soon met.
constexpr std::int64_t kLongestSpan = 200;
constexpr std::string_view kWhatHelps = "A smaller optimizer.lr, lr.warmup_steps or optimizer.clip_norm often help";

bool of_reducer(plan::ScheduleOpKind kind) {
  return kind == plan::ScheduleOpKind::kReduce || kind == plan::ScheduleOpKind::kNorm ||
         kind == plan::ScheduleOpKind::kUpdate;
}

}  // namespace

struct Trainer::Core {
  explicit Core(TrainerOptions how, const base::Clock& time)
      : options(std::move(how)),
        clock(time),
        sampler(options.train->info().size, static_cast<std::uint64_t>(options.job.seed)) {
    if (options.loss_scale) loss_scale.emplace(*options.loss_scale);
  }

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
    YOKE_CHECK(hold({.first = 0, .last = options.architecture.blocks.size()}));
    return {};
  }

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

  base::Deadline deadline() const { return base::Deadline::in(options.patience, clock); }
  data::StepShape shape() const { return {.workers = plan.workers(), .lbs = plan.lbs}; }
  std::uint64_t seed() const { return static_cast<std::uint64_t>(options.job.seed); }

  base::StreamName stream(const data::Cursor& at, std::int64_t worker, base::Purpose purpose) const {
    return {.seed = seed(),
            .epoch = at.epoch,
            .step = static_cast<std::uint64_t>(at.step),
            .worker = static_cast<std::uint32_t>(worker),
            .purpose = purpose};
  }

  // ---- configuration -------------------------------------------------------------------------------------------

  base::Status configure(const plan::Plan& wanted, std::unique_ptr<comm::Group> in,
                         const std::vector<cluster::DeviceId>& devices) {
    if (static_cast<int>(devices.size()) != in->size()) {
      return base::input_error(fmt::format("{} devices for a group of {} ranks", devices.size(), in->size()));
    }
    base::require(at_rest(), "another plan in the middle of a span");
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
    plan = wanted;
    const bool fresh = !altered && cursor.step == 0;
    const bool first_time = holding == nullptr;
    YOKE_TRY(const auto before, hold(layout->range()));
    const Holding* kept = before ? before.get() : (first_time ? nullptr : holding.get());
    auto numbers = pack();
    if (group->size() > 1 || before) {
      YOKE_CHECK(agree({.now = holding.get(), .before = kept, .fresh = fresh, .steps = cursor.step}, numbers,
                       options.architecture.blocks.size(), *group, deadline()));
      unpack(numbers);
    }
    YOKE_TRY(reducer, Reducer::make(fmt::format("step-{}", cursor.step), *layout, *holding, *group, *options.device,
                                    options.speed, options.trace, deadline(), clock));
    YOKE_CHECK(make_lanes());
    if (batches.empty() || batches.back().gbs != plan.gbs || batches.back().lbs != plan.lbs) {
      batches.push_back({.step = cursor.step, .gbs = plan.gbs, .lbs = plan.lbs});
    }
    return {};
  }

  base::Result<Layout> lay_out(const plan::Plan& wanted, comm::Group& in,
                               const std::vector<cluster::DeviceId>& devices) const {
    YOKE_CHECK(same_plan(wanted, in, deadline()));
    YOKE_TRY(Layout accepted, Layout::make(wanted, options.architecture, devices, in.rank()));
    if (accepted.runs_on()) YOKE_CHECK(check_runs_on(wanted, options.job, options.loss_scale.has_value()));
    return accepted;
  }

  base::Status make_lanes() {
    scripts.clear();
    own_workers = layout->own_workers();
    const auto& own = layout->own();
    if (layout->runs_data_lane()) {
      stage.reset();
      own_vsw = plan.data_lanes[static_cast<std::size_t>(own.lane)].vsw;
      data_lane().resize(own_vsw);
    } else {
      lane.reset();
      stage =
          std::make_unique<StageLane>(options.architecture, *holding, *group, *options.device, lane_options(), clock);
    }
    if (!layout->runs_on()) {
      YOKE_TRY(const auto schedule, schedule_of({.steps = 1}));
      reducer_ops.clear();
      for (const auto& op : layout->own_in(schedule).ops) {
        if (of_reducer(op.kind)) reducer_ops.push_back(op);
      }
    }
    ordered.clear();
    const std::size_t workers = std::max<std::size_t>(1, own_workers.size());
    loader = std::make_unique<data::Loader>(
        *options.train,
        data::LoaderOptions{.threads = static_cast<int>(options.job.data.threads),
                            .capacity = std::max<std::size_t>(4, (kStepsAhead + 1) * workers)},
        clock);
    return {};
  }

  base::Result<plan::Schedule> schedule_of(plan::ScheduleRequest request) const {
    request.clip_norm = options.job.optimizer.clip_norm > 0 || loss_scale.has_value();
    return layout->schedule_for(request, reducer->bucket_counts());
  }

  bool loads_data() const { return layout->own().first_stage(); }

  /// Everything that is not a tensor, as numbers that can be sent.
  std::vector<std::int64_t> pack() const {
    const auto scale = loss_scale ? loss_scale->state() : LossScaleState{};
    std::vector<std::int64_t> numbers{
        updates,       cursor.epoch, cursor.consumed,  cursor.step,
        total_samples, skipped,      scale.good_steps, std::bit_cast<std::int64_t>(scale.factor)};
    for (const auto& batch : batches) numbers.insert(numbers.end(), {batch.step, batch.gbs, batch.lbs});
    return numbers;
  }
  void unpack(const std::vector<std::int64_t>& numbers) {
    updates = numbers[0];
    cursor = {.epoch = static_cast<std::uint32_t>(numbers[1]), .consumed = numbers[2], .step = numbers[3]};
    total_samples = numbers[4];
    skipped = numbers[5];
    if (loss_scale) loss_scale->set({.factor = std::bit_cast<double>(numbers[7]), .good_steps = numbers[6]});
    batches.clear();
    for (std::size_t i = 8; i + 2 < numbers.size(); i += 3) {
      batches.push_back({.step = numbers[i], .gbs = numbers[i + 1], .lbs = numbers[i + 2]});
    }
  }

  // ---- a step --------------------------------------------------------------------------------------------------

  /// The samples of one coming step of this lane.
  struct OrderedStep {
    data::Cursor cursor;
    std::vector<Work> work;
  };

  OrderedStep order_step(const data::Cursor& at) {
    OrderedStep step{.cursor = at};
    for (const std::int64_t worker : own_workers) {
      auto work = work_of(at, worker);
      if (work) step.work.push_back(*std::move(work));
    }
    return step;
  }

  /// Nothing when the epoch has no samples left for the worker.
  std::optional<Work> work_of(const data::Cursor& at, std::int64_t worker) {
    auto samples = sampler.samples(at, shape(), worker);
    if (samples.empty()) return std::nullopt;
    Work work{.worker = worker,
              .weight = static_cast<double>(samples.size()) / static_cast<double>(plan.lbs),
              .draw = stream(at, worker, base::Purpose::kDropout)};
    if (loads_data()) {
      work.ticket = loader->order({.indices = std::move(samples), .draw = stream(at, worker, base::Purpose::kAugment)});
    }
    return work;
  }

  std::vector<Work> take_work() {
    data::Cursor next = ordered.empty() ? cursor : sampler.advance(ordered.back().cursor, shape());
    while (ordered.size() <= kStepsAhead && static_cast<std::int64_t>(next.epoch) < options.job.epochs) {
      ordered.push_back(order_step(next));
      next = sampler.advance(next, shape());
    }
    auto work = std::move(ordered.front().work);
    ordered.pop_front();
    return work;
  }

  /// With corrupt samples left out, weights follow from how many are left, which only the ranks together know.
  base::Result<std::int64_t> count_samples(std::vector<Work>& work, const base::Deadline& by) {
    if (options.job.data.corrupt != plan::CorruptPolicy::kSkip) return sampler.step_samples(cursor, shape());
    std::vector<std::int64_t> counts(static_cast<std::size_t>(plan.workers()));
    for (auto& one : work) {
      if (!one.ticket) continue;
      YOKE_TRY(one.batch, one.ticket->take(by));
      one.ticket.reset();
      counts[static_cast<std::size_t>(one.worker)] = one.batch->samples;
    }
    YOKE_CHECK(group->run(comm::all_reduce(std::span(counts)), by));
    for (auto& one : work) {
      one.weight = static_cast<double>(counts[static_cast<std::size_t>(one.worker)]) / static_cast<double>(plan.lbs);
    }
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }

  /// The reducer stream of this rank's program. Returns whether there was an update: not where a gradient overflowed.
  base::Result<bool> reduce_and_update(Update how, const base::Deadline& by) {
    if (plan.sync == plan::Sync::kSequential) {
      YOKE_CHECK(reducer->wait_for_all(by));
    }
    for (const auto& op : reducer_ops) {
      if (op.kind == plan::ScheduleOpKind::kReduce) {
        YOKE_CHECK(reducer->reduce(op, by));
      } else if (op.kind == plan::ScheduleOpKind::kUpdate) {
        reducer->update(op, how);
      } else {
        YOKE_TRY(const double squares, reducer->squared_norm(by));
        if (loss_scale && !loss_scale->judge(std::isfinite(squares))) return false;
        const double clip_norm = options.job.optimizer.clip_norm;
        if (clip_norm > 0) how.scale = clipped_scale(how.scale, squares, clip_norm);
      }
    }
    return true;
  }

  double lr_at(const data::Cursor& at, std::int64_t updates_before) const {
    const double size = static_cast<double>(sampler.size());
    return learning_rate(options.job.lr, options.job.optimizer.lr,
                         {.step = updates_before,
                          .epoch = at.epoch + static_cast<double>(at.consumed) / size,
                          .epochs = static_cast<double>(options.job.epochs)});
  }
  double lr() const { return lr_at(cursor, updates); }

  /// Of a step over all ranks.
  struct Totals {
    double loss = 0;
    double skipped = 0;
    double stop = 0;
    double bad = 0;
  };

  base::Result<StepReport> step(bool stop) {
    base::require(static_cast<std::int64_t>(cursor.epoch) < options.job.epochs, "a step after the last epoch");
    if (layout->runs_on()) return step_of_span(stop);
    const auto begin = clock.now();
    const auto by = deadline();
    auto work = take_work();
    auto counted = count_samples(work, by);
    if (!counted.ok()) return stop_all(counted.error());
    const std::int64_t samples = *counted;
    const double factor = loss_scale ? loss_scale->factor() : 1;
    for (auto& one : work) one.loss_scale = factor;
    const Update how{.lr = lr(),
                     .scale = samples > 0 ? static_cast<double>(plan.lbs) / static_cast<double>(samples) / factor : 0,
                     .clip_value = options.job.optimizer.clip_value,
                     .step = updates + 1};
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
    if (!updated.ok()) return updated.error();
    last_lane = **computed;
    YOKE_TRY(const Totals totals, add_up(last_lane, stop, by));
    YOKE_CHECK(reducer->share_buffers(by));
    if (totals.bad > 0) return not_finite(last_lane, how.lr, by);
    if (*updated) ++updates;
    return report_step(totals, samples, how.lr, begin);
  }

  StepReport report_step(const Totals& totals, std::int64_t samples, double rate, base::Instant begin) {
    StepReport report{.step = cursor.step + 1,
                      .epoch = cursor.epoch,
                      .gbs = plan.gbs,
                      .lbs = plan.lbs,
                      .workers = plan.workers(),
                      .loss = samples > 0 ? totals.loss / static_cast<double>(samples) : 0,
                      .lr = rate,
                      .samples = samples};
    stopping = totals.stop > 0;
    skipped += static_cast<std::int64_t>(totals.skipped);
    total_samples += samples;
    last_loss = report.loss;
    last_rate = rate;
    cursor = sampler.advance(cursor, shape());
    report.total_samples = total_samples;
    report.total_steps = cursor.step + steps_left();
    report.step_seconds = base::to_seconds(clock.now() - begin);
    report.samples_per_second = static_cast<double>(samples) / report.step_seconds;
    return report;
  }

  /// One worker at a time, and nothing to communicate before it is done.
  bool runs_here() const {
    const bool alone = group->size() == 1 || holding->parameters().buckets().size() == 1;
    return own_vsw == 1 && (alone || plan.sync == plan::Sync::kSequential);
  }

  // ---- stages --------------------------------------------------------------------------------------------------

  /// This rank's part of a schedule.
  base::Result<StageScript> script_of(const plan::Schedule& schedule, bool training) const {
    const auto& own = layout->own_in(schedule);
    StageScript script{.ops = own.ops,
                       .ranks = layout->ranks_in(schedule),
                       .workers_per_step = std::max(1, schedule.step_workers),
                       .first_stage = own.first_stage(),
                       .last_stage = own.last_stage(),
                       .training = training};
    if (!training) return script;
    // What is sent beyond the workers in flight was taken: else they would not be beyond.
    YOKE_TRY(const auto facts, plan::check(schedule));
    script.unread_activations = 1;
    script.unread_gradients = 1;
    for (std::size_t i = 0; i < facts.size(); ++i) {
      const auto& program = schedule.programs[i];
      if (program.lane != own.lane) continue;
      const auto in_flight = static_cast<std::size_t>(facts[i].peak_in_flight);
      if (&program == &own) script.unread_activations += in_flight;
      if (program.stage + 1 == own.stage) script.unread_gradients += in_flight;
    }
    return script;
  }

  /// Of the next step, which at the end of an epoch may have fewer workers than others.
  base::Result<StageScript> script_of_step() {
    const int workers = workers_at(cursor);
    auto found = scripts.find(workers);
    if (found == scripts.end()) {
      YOKE_TRY(const auto schedule, schedule_of({.steps = 1, .last_step_workers = workers}));
      YOKE_TRY(auto script, script_of(schedule, true));
      found = scripts.emplace(workers, std::move(script)).first;
    }
    return found->second;
  }

  /// How many workers of the step at a cursor have samples.
  int workers_at(const data::Cursor& at) const {
    return static_cast<int>((sampler.step_samples(at, shape()) + plan.lbs - 1) / plan.lbs);
  }

  // ---- pipelines that run on from step to step -------------------------------------------------------------------

  /// A number of steps between two drains.
  struct Span {
    std::vector<data::Cursor> cursors;  // of its steps
    std::int64_t updates = 0;           // before it
    int done = 0;                       // steps
    double rate_factor = 1;
    int round = 1;                         // workers that one update of this rank's stage is the mean of
    std::map<std::int64_t, Work> ordered;  // by worker of the span
    std::int64_t next_to_order = 0;
  };

  bool at_rest() const { return !span; }

  base::Status begin_span() {
    const std::int64_t every = options.job.checkpoint.every_steps;
    const std::int64_t most = std::min(kLongestSpan, every - cursor.step % every);
    Span next{.updates = updates};
    data::Cursor at = cursor;
    do {
      next.cursors.push_back(at);
      at = sampler.advance(at, shape());
    } while (at.epoch == cursor.epoch && static_cast<std::int64_t>(next.cursors.size()) < most);
    const auto& own = layout->own();
    const auto& pipeline = plan.pipeline_lanes.front();
    next.rate_factor = plan::rate_factor_of(pipeline, own.stage);
    next.round = own.kind == plan::ScheduleKind::kStash ? own.replicas : pipeline.workers;
    YOKE_TRY(const auto schedule, schedule_of({.steps = static_cast<int>(next.cursors.size()),
                                               .last_step_workers = workers_at(next.cursors.back())}));
    YOKE_TRY(auto script, script_of(schedule, true));
    span_workers = schedule.workers;
    span.emplace(std::move(next));
    stage->start(
        std::move(script), [this](int worker) { return work_in_span(worker); },
        [this](const plan::ScheduleOp& op, const base::Deadline& by) { return reduce_in_span(op, by); },
        options.patience);
    return {};
  }

  const data::Cursor& cursor_in_span(std::int64_t worker) const {
    return span->cursors[static_cast<std::size_t>(worker / plan.workers())];
  }
  std::int64_t samples_in_span(std::int64_t worker) const {
    return sampler.worker_samples(cursor_in_span(worker), shape(), worker % plan.workers());
  }

  /// Called by the stage's thread.
  Work work_in_span(std::int64_t worker) {
    if (!loads_data()) return work_of(cursor_in_span(worker), worker % plan.workers()).value();
    // Samples are ordered ahead, as many as a few rounds need.
    const std::int64_t replicas = layout->own().replicas;
    const std::int64_t ahead = worker + (kStepsAhead + 1) * replicas;
    if (span->next_to_order <= worker) span->next_to_order = worker;
    for (; span->next_to_order <= ahead && span->next_to_order < span_workers; span->next_to_order += replicas) {
      const std::int64_t next = span->next_to_order;
      span->ordered.emplace(next, work_of(cursor_in_span(next), next % plan.workers()).value());
    }
    auto work = std::move(span->ordered.at(worker));
    span->ordered.erase(worker);
    return work;
  }

  /// Called by the stage's thread. Update number `version` is of the workers of round `version` - 1.
  base::Status reduce_in_span(const plan::ScheduleOp& op, const base::Deadline& by) {
    if (op.kind == plan::ScheduleOpKind::kReduce) return reducer->reduce(op, by);
    const std::int64_t first = static_cast<std::int64_t>(op.version - 1) * span->round;
    std::int64_t samples = 0;
    for (std::int64_t worker = first; worker < std::min<std::int64_t>(first + span->round, span_workers); ++worker) {
      samples += samples_in_span(worker);
    }
    const std::int64_t rounds_a_step = (plan.workers() + span->round - 1) / span->round;
    reducer->update(op, {.lr = span->rate_factor * lr_at(cursor_in_span(first), span->updates + first / plan.workers()),
                         .scale = static_cast<double>(plan.lbs) / static_cast<double>(samples),
                         .clip_value = options.job.optimizer.clip_value,
                         .step = span->updates * rounds_a_step + op.version});
    return {};
  }

  base::Result<StepReport> step_of_span(bool stop) {
    const auto begin = clock.now();
    const auto by = deadline();
    if (!span) YOKE_CHECK(begin_span());
    const double rate = lr();
    const std::int64_t samples = sampler.step_samples(cursor, shape());
    auto done = stage->reach(span->done + 1);
    if (!done.ok()) return stop_all(done.error());
    YOKE_TRY(const Totals totals, add_up(*done, stop, by));
    if (totals.bad > 0) return not_finite(*done, rate, by);
    if (static_cast<std::size_t>(++span->done) == span->cursors.size()) {
      const auto drained = stage->finish();
      if (!drained.ok()) return stop_all(drained.error());
      span.reset();
      YOKE_CHECK(reducer->share_buffers(by));
    }
    ++updates;
    return report_step(totals, samples, rate, begin);
  }

  std::int64_t steps_left() const {
    if (static_cast<std::int64_t>(cursor.epoch) >= options.job.epochs) return 0;
    const std::int64_t left = sampler.size() - cursor.consumed;
    const std::int64_t more = options.job.epochs - static_cast<std::int64_t>(cursor.epoch) - 1;
    return (left + plan.gbs - 1) / plan.gbs + more * sampler.steps_per_epoch(shape());
  }

  /// This rank cannot go on: the others are told why. Where they have told this one, what they say is the reason.
  base::Error stop_all(const base::Error& error) {
    const auto told = group->failure();
    if (error.kind != base::ErrorKind::kPeer || !told) group->abort(error.to_string());
    const base::Error& reason = error.kind == base::ErrorKind::kPeer && told ? told->error : error;
    if (reducer) reducer->abort(reason.to_string());
    return reason;
  }

  base::Result<Totals> add_up(const LaneReport& report, bool stop, const base::Deadline& by) {
    std::array<double, 4> sums{report.loss, static_cast<double>(report.skipped), stop ? 1.0 : 0.0,
                               report.bad_worker ? 1.0 : 0.0};
    YOKE_CHECK(group->run(comm::all_reduce(std::span(sums)), by));
    return Totals{.loss = sums[0], .skipped = sums[1], .stop = sums[2], .bad = sums[3]};
  }

  base::Error not_finite(const LaneReport& report, double rate, const base::Deadline& by) {
    std::int64_t worker = report.bad_worker.value_or(-1);
    const auto shared = group->run(comm::all_reduce(std::span(&worker, 1), comm::Reduction::kMax), by);
    if (!shared.ok()) return shared.error();
    return base::input_error(
        fmt::format("the loss of worker {} is not finite at step {} (epoch {}, lr {:g}); checkpoints from before are "
                    "kept. {}",
                    worker, cursor.step + 1, cursor.epoch, rate, kWhatHelps));
  }

  // ---- evaluation and measurement ------------------------------------------------------------------------------

  base::Result<Evaluation> evaluate() {
    base::require(options.test != nullptr, "evaluation without test data");
    const std::int64_t size = options.test->info().size;
    const std::int64_t batch = std::max<std::int64_t>(plan.lbs, 32);
    data::Loader reader(*options.test, {.threads = static_cast<int>(options.job.data.threads), .capacity = 8}, clock);
    // Batches are dealt to lanes in turn.
    const auto lanes = static_cast<std::int64_t>(plan.data_lanes.size() + plan.pipeline_lanes.size());
    std::vector<std::vector<std::int64_t>> own_batches;
    for (std::int64_t begin = batch * layout->own().lane; begin < size; begin += batch * lanes) {
      auto& indices = own_batches.emplace_back();
      for (std::int64_t i = begin; i < std::min(size, begin + batch); ++i) indices.push_back(i);
    }
    const auto report = stage ? evaluate_stage(own_batches, reader) : evaluate_lane(own_batches, reader);
    if (!report.ok()) return stop_all(report.error());
    std::array<double, 3> sums{report->loss, static_cast<double>(report->correct),
                               static_cast<double>(report->samples)};
    YOKE_CHECK(group->run(comm::all_reduce(std::span(sums)), deadline()));
    return Evaluation{.loss = sums[2] > 0 ? sums[0] / sums[2] : 0,
                      .accuracy = sums[2] > 0 ? sums[1] / sums[2] : 0,
                      .samples = static_cast<std::int64_t>(sums[2])};
  }

  base::Result<LaneReport> evaluate_lane(const std::vector<std::vector<std::int64_t>>& own_batches,
                                         data::Loader& reader) {
    std::vector<Work> work;
    for (const auto& indices : own_batches) {
      work.push_back({.worker = static_cast<std::int64_t>(work.size()), .ticket = reader.order({.indices = indices})});
    }
    return lane->evaluate(std::move(work), runs_here(), deadline());
  }

  base::Result<LaneReport> evaluate_stage(const std::vector<std::vector<std::int64_t>>& own_batches,
                                          data::Loader& reader) {
    if (own_batches.empty()) return LaneReport{};
    YOKE_TRY(const auto schedule, layout->evaluation_of(static_cast<int>(own_batches.size())));
    YOKE_TRY(auto script, script_of(schedule, false));
    std::vector<Work> work;
    for (const auto& op : script.ops) {
      if (op.kind != plan::ScheduleOpKind::kForward) continue;
      Work one{.worker = op.worker};
      if (script.first_stage) one.ticket = reader.order({.indices = own_batches[static_cast<std::size_t>(op.worker)]});
      work.push_back(std::move(one));
    }
    stage->start(std::move(script), std::move(work), deadline());
    return stage->finish();
  }

  base::Result<Measurement> measure(int lbs, int vsw) {
    YOKE_CHECK(hold_all());
    base::require(holding->range().last == options.architecture.blocks.size() && holding->range().first == 0,
                  "a measurement of a part of the model");
    return measure_passes(
        {.holding = *holding, .lane = data_lane(), .data = *options.train, .device = *options.device, .seed = seed()},
        lbs, vsw, options.patience, clock);
  }

  // ---- checkpoints ---------------------------------------------------------------------------------------------

  /// A step may have a finite loss and yet an update that ruins the weights. Ranks of pipelines hear of each other's
  /// weights; ranks of data lanes all have the same. Buffers may hold infinities by design, e.g. a mask.
  base::Status check_finite() {
    std::int64_t bad = 0;
    const auto& parameters = holding->parameters();
    for (std::size_t i = 0; i < parameters.count() && bad == 0; ++i) {
      const auto weight = parameters.weight(i).detach();
      if (weight.numel() == 0) continue;
      const auto [least, most] = torch::aminmax(weight);  // NaN if there is one
      if (!std::isfinite(least.item<float>()) || !std::isfinite(most.item<float>())) bad = 1;
    }
    if (layout && !layout->data_only()) {
      YOKE_CHECK(group->run(comm::all_reduce(std::span(&bad, 1), comm::Reduction::kMax), deadline()));
    }
    if (bad == 0) return {};
    return base::input_error(
        fmt::format("the weights are not finite after step {} (lr {:g}), so they are not saved; checkpoints from "
                    "before are kept. {}",
                    cursor.step, last_rate, kWhatHelps));
  }

  base::Result<Checkpoint> snapshot() {
    base::require(at_rest(), "a snapshot in the middle of a span");
    YOKE_CHECK(hold_all());
    YOKE_CHECK(check_finite());
    Checkpoint checkpoint;
    checkpoint.meta = {.model = options.architecture.name,
                       .cursor = cursor,
                       .seed = seed(),
                       .updates = updates,
                       .train_loss = last_loss,
                       .batches = batches};
    if (loss_scale) checkpoint.meta.loss_scale = loss_scale->state();
    const bool writes = !group || group->rank() == 0;
    if (!layout || layout->data_only()) {
      if (writes) {
        add_copies(checkpoint.weights, holding->weights());
        add_copies(checkpoint.optimizer, holding->state());
      }
      return checkpoint;
    }
    const auto owner = [this](std::size_t block) { return layout->ranks_of(layout->segment_of(block)).front(); };
    const std::size_t blocks = options.architecture.blocks.size();
    const auto keep = [&](const Holding& part, std::size_t block) {
      add_copies(checkpoint.weights, part.weights(block));
      add_copies(checkpoint.optimizer, part.state(block));
    };
    for (std::size_t block = 0; block < blocks && writes; ++block) {
      if (owner(block) == 0) keep(*holding, block);
    }
    YOKE_CHECK(gather_blocks(
        *holding, blocks, owner,
        [&](std::size_t block, const torch::Tensor& packed) -> base::Status {
          YOKE_TRY(const auto part, Holding::make(options.architecture, options.job,
                                                  {.first = block, .last = block + 1}, *options.device));
          part->unpack(block, packed);
          keep(*part, block);
          return {};
        },
        *group, deadline()));
    return checkpoint;
  }

  static void add_copies(NamedTensors& to, const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) to.emplace_back(name, tensor.detach().cpu().contiguous());
  }

  base::Status restore(const Checkpoint& checkpoint, const std::string& where) {
    YOKE_CHECK(check_model(checkpoint.meta, options.architecture.name, where));
    YOKE_CHECK(hold_all());
    YOKE_TRY(const auto weights, TensorCopies::match(holding->weights(), checkpoint.weights, where));
    YOKE_TRY(const auto state, TensorCopies::match(holding->state(), checkpoint.optimizer, where));
    weights.copy();
    state.copy();
    altered = true;
    cursor = checkpoint.meta.cursor;
    updates = checkpoint.meta.updates;
    last_loss = checkpoint.meta.train_loss;
    batches = checkpoint.meta.batches;
    if (loss_scale && checkpoint.meta.loss_scale) loss_scale->set(*checkpoint.meta.loss_scale);
    total_samples = cursor.epoch * sampler.size() + cursor.consumed;
    ordered.clear();
    return {};
  }

  base::Status load(const NamedTensors& weights, const std::string& where) {
    YOKE_CHECK(hold_all());
    YOKE_TRY(const auto copies, TensorCopies::match(holding->weights(), weights, where));
    copies.copy();
    altered = true;
    return {};
  }

  std::vector<double> bucket_mebibytes() const {
    std::vector<double> sizes;
    for (const auto& bucket : holding->parameters().buckets()) {
      std::int64_t elements = 0;
      for (const auto& segment : bucket.segments) elements += segment.count;
      sizes.push_back(static_cast<double>(elements * bucket.weights.element_size()) / (1 << 20));
    }
    return sizes;
  }

  const TrainerOptions options;
  const base::Clock& clock;
  const data::Sampler sampler;

  // The state.
  std::unique_ptr<Holding> holding;  // from the first need on
  bool altered = false;              // weights are not those of the seed, though no update was made
  data::Cursor cursor;
  std::int64_t updates = 0;
  std::int64_t total_samples = 0;
  std::int64_t skipped = 0;
  double last_loss = 0;
  double last_rate = 0;
  std::optional<LossScale> loss_scale;
  std::vector<BatchChange> batches;

  // How the next step runs.
  plan::Plan plan;
  std::unique_ptr<Layout> layout;
  std::vector<std::int64_t> own_workers;
  int own_vsw = 1;
  bool stopping = false;
  LaneReport last_lane;
  std::unique_ptr<comm::Group> group;
  std::unique_ptr<Reducer> reducer;
  std::vector<plan::ScheduleOp> reducer_ops;  // of a step
  std::map<int, StageScript> scripts;         // of a step, by its workers
  std::unique_ptr<data::Loader> loader;
  std::deque<OrderedStep> ordered;  // the first is the next step
  std::optional<Span> span;         // under way
  int span_workers = 0;
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
  return static_cast<std::int64_t>(core_->cursor.epoch) >= core_->options.job.epochs;
}

base::Result<Evaluation> Trainer::evaluate() {
  return core_->evaluate();
}

const data::Cursor& Trainer::cursor() const {
  return core_->cursor;
}

std::int64_t Trainer::skipped_samples() const {
  return core_->skipped;
}

std::int64_t Trainer::total_samples() const {
  return core_->total_samples;
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
  base::require(core_->updates == 0, "the optimizer's state is not to be spoilt");
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
  return core_->bucket_mebibytes();
}

const LaneReport& Trainer::last_lane() const {
  return core_->last_lane;
}

}  // namespace yoke::engine
