#include "yoke/engine/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>

#include "yoke/comm/op.h"
#include "yoke/engine/median.h"
#include "yoke/engine/optimizer/lr.h"

namespace yoke::engine {
namespace {

constexpr int kStepsAhead = 2;  // whose samples are ordered before they are needed
// A measurement: passes that count, after one that does not; more of them while they are short.
constexpr int kMeasured = 3;
constexpr int kMostMeasured = 30;
constexpr double kMeasureSeconds = 0.25;
constexpr int kMeasuredRounds = 2;

comm::Op whole(comm::Op (*make)(std::byte*, std::size_t, comm::DType, comm::Reduction), const torch::Tensor& floats) {
  return make(reinterpret_cast<std::byte*>(floats.data_ptr()), static_cast<std::size_t>(floats.numel()),
              comm::DType::kF32, comm::Reduction::kSum);
}

comm::Op broadcast_of(const torch::Tensor& tensor, int root) {
  return comm::broadcast(static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.nbytes()),
                         comm::DType::kU8, root);
}

/// Tells weights apart; not meant against malice.
std::int64_t fingerprint(const std::vector<FlatBucket>& buckets) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const auto& bucket : buckets) {
    const auto host = bucket.weights.cpu();
    for (const float value : floats_of(host)) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      hash = (hash ^ bits) * 0x100000001b3U;
    }
  }
  return static_cast<std::int64_t>(hash);
}

}  // namespace

struct Trainer::Core {
  explicit Core(TrainerOptions how, const base::Clock& time)
      : options(std::move(how)),
        clock(time),
        sampler(options.train->info().size, static_cast<std::uint64_t>(options.job.seed)) {
    if (options.loss_scale) loss_scale.emplace(*options.loss_scale);
  }

  base::Status build() {
    options.device->enter(0, 1);
    models::Network network(options.architecture, {.seed = static_cast<std::uint64_t>(options.job.seed)});
    YOKE_TRY(parameters, Parameters::make(network, options.job.optimizer, options.device->where()));
    gradients = std::make_unique<GradientSum>(*parameters, *options.device, options.job.reproducible);
    optimizer = make_optimizer(options.job.optimizer, parameters->buckets());
    lane = std::make_unique<DataLane>(options.architecture, *parameters, *gradients, *options.device,
                                      LaneOptions{.speed = options.speed,
                                                  .precision = options.job.precision,
                                                  .loss = {.label_smoothing = options.job.label_smoothing},
                                                  .trace = options.trace,
                                                  .meet = options.meet},
                                      clock);
    return {};
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
    if (!wanted.pipeline_lanes.empty()) return base::input_error("the plan has pipeline lanes; expected data lanes");
    if (static_cast<int>(devices.size()) != in->size()) {
      return base::input_error(fmt::format("{} devices for a group of {} ranks", devices.size(), in->size()));
    }
    std::int64_t first = 0;
    std::optional<std::int64_t> own_first;
    std::vector<bool> busy(devices.size());
    for (const auto& each : wanted.data_lanes) {
      const auto found = std::ranges::find(devices, each.device);
      if (found == devices.end()) {
        return base::input_error(fmt::format("the plan uses device {}, which is not among the {} of this run",
                                             each.device.to_string(), devices.size()));
      }
      const auto rank = found - devices.begin();
      busy[static_cast<std::size_t>(rank)] = true;
      if (first == 0) worker_zero_rank = static_cast<int>(rank);
      if (rank == in->rank()) {
        own_first = first;
        own = each;
      }
      first += each.workers();
    }
    if (const auto idle = std::ranges::find(busy, false); idle != busy.end()) {
      return base::input_error(fmt::format("the plan gives device {} nothing to do; expected a lane for each device",
                                           devices[static_cast<std::size_t>(idle - busy.begin())].to_string()));
    }
    plan = wanted;
    group = std::move(in);
    first_worker = *own_first;
    lane->resize(own.vsw);
    ordered.clear();
    loader = std::make_unique<data::Loader>(
        *options.train,
        data::LoaderOptions{.threads = static_cast<int>(options.job.data.threads),
                            .capacity = static_cast<std::size_t>(std::max(4, (kStepsAhead + 1) * own.workers()))},
        clock);
    YOKE_CHECK(agree());
    if (batches.empty() || batches.back().gbs != plan.gbs || batches.back().lbs != plan.lbs) {
      batches.push_back({.step = cursor.step, .gbs = plan.gbs, .lbs = plan.lbs});
    }
    return {};
  }

  /// Everything that is not a tensor, as numbers that can be sent.
  std::vector<std::int64_t> pack() const {
    std::vector<std::int64_t> numbers{updates, cursor.epoch, cursor.consumed, cursor.step, total_samples, skipped};
    for (const auto& batch : batches) numbers.insert(numbers.end(), {batch.step, batch.gbs, batch.lbs});
    return numbers;
  }
  void unpack(const std::vector<std::int64_t>& numbers) {
    updates = numbers[0];
    cursor = {.epoch = static_cast<std::uint32_t>(numbers[1]), .consumed = numbers[2], .step = numbers[3]};
    total_samples = numbers[4];
    skipped = numbers[5];
    batches.clear();
    for (std::size_t i = 6; i + 2 < numbers.size(); i += 3) {
      batches.push_back({.step = numbers[i], .gbs = numbers[i + 1], .lbs = numbers[i + 2]});
    }
  }

  /// All ranks get the state of the one that has done most updates (the lowest of them), unless they have it already.
  base::Status agree() {
    if (group->size() == 1) return {};
    constexpr std::size_t kFields = 3;
    const auto ranks = static_cast<std::size_t>(group->size());
    std::vector<std::int64_t> all(ranks * kFields);
    const std::size_t at = static_cast<std::size_t>(group->rank()) * kFields;
    all[at] = updates;
    all[at + 1] = fingerprint(parameters->buckets());
    all[at + 2] = static_cast<std::int64_t>(pack().size());
    YOKE_CHECK(group->run(comm::all_gather(std::span(all)), deadline()));
    std::size_t source = 0;
    bool same = true;
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      if (all[rank * kFields] > all[source * kFields]) source = rank;
      for (std::size_t i = 0; i < kFields; ++i) same = same && all[rank * kFields + i] == all[i];
    }
    if (same) return {};
    const int root = static_cast<int>(source);
    std::vector<std::int64_t> numbers = pack();
    numbers.resize(static_cast<std::size_t>(all[source * kFields + 2]));
    YOKE_CHECK(group->run(comm::broadcast(std::span(numbers), root), deadline()));
    unpack(numbers);
    for (std::size_t i = 0; i < parameters->buckets().size(); ++i) {
      YOKE_CHECK(group->run(broadcast_of(parameters->buckets()[i].weights, root), deadline()));
      for (const auto& [name, tensor] : optimizer->state(i)) {
        YOKE_CHECK(group->run(broadcast_of(tensor, root), deadline()));
      }
    }
    if (parameters->flat_buffers().numel() == 0) return {};
    return group->run(broadcast_of(parameters->flat_buffers(), root), deadline());
  }

  // ---- a step --------------------------------------------------------------------------------------------------

  /// The samples of one coming step of this lane.
  struct OrderedStep {
    data::Cursor cursor;
    std::vector<Work> work;
  };

  OrderedStep order_step(const data::Cursor& at) {
    OrderedStep step{.cursor = at};
    for (std::int64_t i = 0; i < own.workers(); ++i) {
      const std::int64_t worker = first_worker + i;
      auto samples = sampler.samples(at, shape(), worker);
      if (samples.empty()) continue;
      Work work{.worker = worker,
                .weight = static_cast<double>(samples.size()) / static_cast<double>(plan.lbs),
                .draw = stream(at, worker, base::Purpose::kDropout)};
      work.ticket = loader->order({.indices = std::move(samples), .draw = stream(at, worker, base::Purpose::kAugment)});
      step.work.push_back(std::move(work));
    }
    return step;
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
    std::int64_t count = 0;
    for (auto& one : work) {
      YOKE_TRY(one.batch, one.ticket->take(by));
      one.ticket.reset();
      one.weight = static_cast<double>(one.batch->samples) / static_cast<double>(plan.lbs);
      count += one.batch->samples;
    }
    YOKE_CHECK(group->run(comm::all_reduce(std::span(&count, 1)), by));
    return count;
  }

  base::Status reduce(std::size_t bucket, const base::Deadline& by) {
    const auto begin = clock.now();
    YOKE_CHECK(gradients->wait(bucket, by));
    const auto ready = clock.now();
    options.trace.span(kReducerThread, "wait for gradients", "wait", begin, ready);
    const auto& flat = parameters->buckets()[bucket].gradients;
    if (gradients->reproducible()) {
      YOKE_CHECK(comm::reproducible_all_reduce(gradients->sum(bucket), floats_of(flat), *group, by));
    } else if (group->size() > 1) {
      YOKE_CHECK(group->run(whole(&comm::all_reduce, flat), by));
    }
    options.trace.span(kReducerThread, fmt::format("all-reduce {}", bucket), "communicate", ready, clock.now());
    return {};
  }

  void update(std::size_t bucket, const Update& how) {
    const auto begin = clock.now();
    optimizer->update(bucket, how);
    options.trace.span(kReducerThread, fmt::format("update {}", bucket), "update", begin, clock.now());
  }

  base::Status reduce_and_update(Update how, const base::Deadline& by) {
    const std::size_t count = parameters->buckets().size();
    const double clip_norm = options.job.optimizer.clip_norm;
    const bool at_once = plan.sync == plan::Sync::kOverlap && clip_norm == 0 && !loss_scale;
    if (plan.sync == plan::Sync::kSequential) {
      for (std::size_t i = 0; i < count; ++i) YOKE_CHECK(gradients->wait(i, by));
    }
    for (std::size_t i = 0; i < count; ++i) {
      YOKE_CHECK(reduce(i, by));
      if (at_once) update(i, how);
    }
    if (at_once) return {};
    if (clip_norm > 0 || loss_scale) {
      double squares = 0;
      for (const auto& bucket : parameters->buckets()) squares += squared_norm(bucket.gradients);
      if (loss_scale && !loss_scale->judge(std::isfinite(squares))) return {};
      if (clip_norm > 0) how.scale = clipped_scale(how.scale, squares, clip_norm);
    }
    for (std::size_t i = 0; i < count; ++i) update(i, how);
    return {};
  }

  double lr() const {
    const double size = static_cast<double>(sampler.size());
    return learning_rate(options.job.lr, options.job.optimizer.lr,
                         {.step = updates,
                          .epoch = cursor.epoch + static_cast<double>(cursor.consumed) / size,
                          .epochs = static_cast<double>(options.job.epochs)});
  }

  base::Result<StepReport> step(bool stop) {
    base::require(static_cast<std::int64_t>(cursor.epoch) < options.job.epochs, "a step after the last epoch");
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
    gradients->begin(static_cast<int>(work.size()));
    const auto computed_here = runs_here() ? std::optional(lane->run_here(std::move(work), by)) : std::nullopt;
    if (!computed_here) lane->start(std::move(work), by);
    const auto updated = reduce_and_update(how, by);
    const auto computed = computed_here ? *computed_here : lane->finish(by);
    if (!computed.ok()) return stop_all(computed.error());
    YOKE_CHECK(updated);
    last_lane = *computed;
    YOKE_TRY(const Totals totals, add_up(*computed, stop, by));
    YOKE_CHECK(share_buffers(by));
    if (totals.bad > 0) return not_finite(*computed, how.lr, by);

    StepReport report{.step = cursor.step + 1,
                      .epoch = cursor.epoch,
                      .gbs = plan.gbs,
                      .lbs = plan.lbs,
                      .workers = plan.workers(),
                      .loss = samples > 0 ? totals.loss / static_cast<double>(samples) : 0,
                      .lr = how.lr,
                      .samples = samples};
    stopping = totals.stop > 0;
    skipped += static_cast<std::int64_t>(totals.skipped);
    total_samples += samples;
    ++updates;
    last_loss = report.loss;
    cursor = sampler.advance(cursor, shape());
    report.total_samples = total_samples;
    report.total_steps = cursor.step + steps_left();
    report.step_seconds = base::to_seconds(clock.now() - begin);
    report.samples_per_second = static_cast<double>(samples) / report.step_seconds;
    return report;
  }

  /// One worker at a time, and nothing to communicate before it is done.
  bool runs_here() const {
    const bool alone = group->size() == 1 || parameters->buckets().size() == 1;
    return own.vsw == 1 && (alone || plan.sync == plan::Sync::kSequential);
  }

  std::int64_t steps_left() const {
    if (static_cast<std::int64_t>(cursor.epoch) >= options.job.epochs) return 0;
    const std::int64_t left = sampler.size() - cursor.consumed;
    const std::int64_t more = options.job.epochs - static_cast<std::int64_t>(cursor.epoch) - 1;
    return (left + plan.gbs - 1) / plan.gbs + more * sampler.steps_per_epoch(shape());
  }

  /// This rank cannot go on: the others are told why.
  base::Error stop_all(const base::Error& error) {
    if (error.kind != base::ErrorKind::kPeer || !group->failure()) group->abort(error.to_string());
    return error;
  }

  struct Totals {
    double loss = 0;
    double skipped = 0;
    double stop = 0;
    double bad = 0;
  };

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
                    "kept. A smaller optimizer.lr, lr.warmup_steps or optimizer.clip_norm often help",
                    worker, cursor.step + 1, cursor.epoch, rate));
  }

  base::Status share_buffers(const base::Deadline& by) {
    if (group->size() == 1 || parameters->flat_buffers().numel() == 0) return {};
    return group->run(broadcast_of(parameters->flat_buffers(), worker_zero_rank), by);
  }

  // ---- evaluation and measurement ------------------------------------------------------------------------------

  base::Result<Evaluation> evaluate() {
    base::require(options.test != nullptr, "evaluation without test data");
    const std::int64_t size = options.test->info().size;
    const std::int64_t batch = std::max<std::int64_t>(plan.lbs, 32);
    data::Loader reader(*options.test, {.threads = static_cast<int>(options.job.data.threads), .capacity = 8}, clock);
    std::vector<Work> work;
    for (std::int64_t begin = batch * group->rank(); begin < size; begin += batch * group->size()) {
      data::Order order;
      for (std::int64_t i = begin; i < std::min(size, begin + batch); ++i) order.indices.push_back(i);
      work.push_back({.worker = begin / batch, .ticket = reader.order(std::move(order))});
    }
    lane->start_evaluation(std::move(work), deadline());
    const auto report = lane->finish(deadline());
    if (!report.ok()) return stop_all(report.error());
    std::array<double, 3> sums{report->loss, static_cast<double>(report->correct),
                               static_cast<double>(report->samples)};
    YOKE_CHECK(group->run(comm::all_reduce(std::span(sums)), deadline()));
    return Evaluation{.loss = sums[2] > 0 ? sums[0] / sums[2] : 0,
                      .accuracy = sums[2] > 0 ? sums[1] / sums[2] : 0,
                      .samples = static_cast<std::int64_t>(sums[2])};
  }

  base::Result<Measurement> measure(int lbs, int vsw) {
    lane->resize(vsw);
    std::vector<double> data;
    std::vector<double> forward;
    std::vector<double> backward;
    std::int64_t peak = 0;
    double spent = 0;
    for (int pass = 0; pass <= kMeasured || (pass <= kMostMeasured && spent < kMeasureSeconds); ++pass) {
      std::vector<Work> work;
      for (int i = 0; i < kMeasuredRounds * vsw; ++i) {
        std::vector<std::int64_t> indices;
        for (std::int64_t k = 0; k < lbs; ++k) indices.push_back((i * lbs + k) % sampler.size());
        const auto begin = clock.now();
        YOKE_TRY(auto batch, options.train->load(indices, stream({}, i + 1, base::Purpose::kAugment)));
        data.push_back(base::to_seconds(clock.now() - begin));
        // Worker 0 would change the buffers.
        work.push_back(
            {.worker = i + 1, .batch = std::move(batch), .draw = stream({}, i + 1, base::Purpose::kDropout)});
      }
      options.device->reset_peak_memory();
      const auto begin = clock.now();
      gradients->begin(kMeasuredRounds * vsw);
      lane->start(std::move(work), deadline());
      YOKE_TRY(const LaneReport report, lane->finish(deadline()));
      const double seconds = base::to_seconds(clock.now() - begin);
      peak = std::max(peak, options.device->memory().peak_bytes);
      spent += seconds;
      if (pass == 0) continue;
      // All that a round takes, also around the passes, in the proportion of the passes.
      const double share = report.forward_seconds / (report.forward_seconds + report.backward_seconds);
      forward.push_back(seconds / kMeasuredRounds * share);
      backward.push_back(seconds / kMeasuredRounds * (1 - share));
    }
    return Measurement{
        .data = median(data), .forward = median(forward), .backward = median(backward), .peak_bytes = peak};
  }

  double measure_update() {
    base::require(updates == 0, "the optimizer's state is not to be spoilt");
    std::vector<double> seconds;
    for (int pass = 0; pass < kMeasured; ++pass) {
      const auto begin = clock.now();
      for (std::size_t i = 0; i < parameters->buckets().size(); ++i) optimizer->update(i, {.lr = 0, .scale = 0});
      seconds.push_back(base::to_seconds(clock.now() - begin));
    }
    for (std::size_t i = 0; i < parameters->buckets().size(); ++i) {
      for (auto& [name, tensor] : optimizer->state(i)) tensor.zero_();
    }
    return median(seconds);
  }

  base::Result<double> measure_all_reduce(comm::Group& in) {
    std::vector<double> seconds;
    for (int pass = 0; pass < kMeasured; ++pass) {
      YOKE_CHECK(in.run(comm::barrier(), deadline()));
      const auto begin = clock.now();
      for (const auto& bucket : parameters->buckets()) {
        if (in.size() > 1) YOKE_CHECK(in.run(whole(&comm::all_reduce, bucket.gradients), deadline()));
      }
      seconds.push_back(base::to_seconds(clock.now() - begin));
    }
    return median(seconds);
  }

  // ---- checkpoints ---------------------------------------------------------------------------------------------

  Checkpoint snapshot() const {
    Checkpoint checkpoint;
    checkpoint.meta = {.model = options.architecture.name,
                       .cursor = cursor,
                       .seed = seed(),
                       .updates = updates,
                       .train_loss = last_loss,
                       .batches = batches};
    for (const auto& [name, tensor] : parameters->named()) {
      checkpoint.weights.emplace_back(name, tensor.cpu().contiguous());
    }
    for (std::size_t i = 0; i < parameters->buckets().size(); ++i) {
      for (const auto& [state, flat] : optimizer->state(i)) {
        for (const auto& segment : parameters->buckets()[i].segments) {
          checkpoint.optimizer.emplace_back(state + "." + segment.name,
                                            flat.narrow(0, segment.begin, segment.count).cpu().contiguous());
        }
      }
    }
    return checkpoint;
  }

  /// Pairs of (where to, where from) for tensors of equal names and sizes; an error that names the first that differs.
  using Copies = std::vector<std::pair<torch::Tensor, torch::Tensor>>;
  static base::Result<Copies> match(const NamedTensors& ours, const NamedTensors& theirs, const std::string& where) {
    std::map<std::string_view, const torch::Tensor*> by_name;
    for (const auto& [name, tensor] : theirs) by_name[name] = &tensor;
    Copies copies;
    for (const auto& [name, tensor] : ours) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) {
        return base::input_error(
            fmt::format("has no `{}`; expected the tensors of this job's model and optimizer", name), {.file = where});
      }
      if (found->second->numel() != tensor.numel() || found->second->scalar_type() != tensor.scalar_type()) {
        return base::input_error(fmt::format("`{}` has {} elements of {}; expected {} of {}", name,
                                             found->second->numel(), c10::toString(found->second->scalar_type()),
                                             tensor.numel(), c10::toString(tensor.scalar_type())),
                                 {.file = where});
      }
      copies.emplace_back(tensor, *found->second);
      by_name.erase(found);
    }
    if (!by_name.empty()) {
      return base::input_error(
          fmt::format("has `{}`, which this job's model and optimizer do not know", by_name.begin()->first),
          {.file = where});
    }
    return copies;
  }

  static void copy(const Copies& copies) {
    const torch::NoGradGuard no_grad;
    for (auto [to, from] : copies) to.copy_(from.view(to.sizes()));
  }

  base::Status restore(const Checkpoint& checkpoint, const std::string& where) {
    YOKE_CHECK(check_model(checkpoint.meta, options.architecture.name, where));
    NamedTensors states;
    for (std::size_t i = 0; i < parameters->buckets().size(); ++i) {
      for (const auto& [state, flat] : optimizer->state(i)) {
        for (const auto& segment : parameters->buckets()[i].segments) {
          states.emplace_back(state + "." + segment.name, flat.narrow(0, segment.begin, segment.count));
        }
      }
    }
    YOKE_TRY(const Copies weights, match(parameters->named(), checkpoint.weights, where));
    YOKE_TRY(const Copies state, match(states, checkpoint.optimizer, where));
    copy(weights);
    copy(state);
    cursor = checkpoint.meta.cursor;
    updates = checkpoint.meta.updates;
    last_loss = checkpoint.meta.train_loss;
    batches = checkpoint.meta.batches;
    total_samples = cursor.epoch * sampler.size() + cursor.consumed;
    ordered.clear();
    return {};
  }

  base::Status load(const NamedTensors& weights, const std::string& where) {
    YOKE_TRY(const Copies copies, match(parameters->named(), weights, where));
    copy(copies);
    return {};
  }

  StateBytes state_bytes() const {
    StateBytes bytes{.buffers = parameters->flat_buffers().numel()};
    for (std::size_t i = 0; i < parameters->buckets().size(); ++i) {
      bytes.weights += static_cast<std::int64_t>(parameters->buckets()[i].weights.nbytes());
      bytes.gradients += static_cast<std::int64_t>(parameters->buckets()[i].gradients.nbytes());
      for (const auto& [name, tensor] : optimizer->state(i)) {
        bytes.optimizer += static_cast<std::int64_t>(tensor.nbytes());
      }
    }
    return bytes;
  }

  std::vector<double> bucket_mebibytes() const {
    std::vector<double> sizes;
    for (const auto& bucket : parameters->buckets()) {
      std::int64_t elements = 0;
      for (const auto& segment : bucket.segments) elements += segment.count;
      sizes.push_back(static_cast<double>(elements * bucket.weights.element_size()) / (1 << 20));
    }
    return sizes;
  }

  /// The track of the thread that reduces and updates, after those of the slots.
  static constexpr int kReducerThread = 100;

  const TrainerOptions options;
  const base::Clock& clock;
  const data::Sampler sampler;

  // The state.
  std::unique_ptr<Parameters> parameters;
  std::unique_ptr<Optimizer> optimizer;
  data::Cursor cursor;
  std::int64_t updates = 0;
  std::int64_t total_samples = 0;
  std::int64_t skipped = 0;
  double last_loss = 0;
  std::optional<LossScale> loss_scale;
  std::vector<BatchChange> batches;

  // How the next step runs.
  plan::Plan plan;
  plan::DataLane own;
  std::int64_t first_worker = 0;
  int worker_zero_rank = 0;
  bool stopping = false;
  LaneReport last_lane;
  std::unique_ptr<comm::Group> group;
  std::unique_ptr<GradientSum> gradients;
  std::unique_ptr<data::Loader> loader;
  std::deque<OrderedStep> ordered;  // the first is the next step
  std::unique_ptr<DataLane> lane;   // last: its threads use what is above
};

Trainer::Trainer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Trainer::~Trainer() = default;

base::Result<std::unique_ptr<Trainer>> Trainer::make(TrainerOptions options, const base::Clock& clock) {
  auto core = std::make_unique<Core>(std::move(options), clock);
  YOKE_CHECK(core->build());
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

Checkpoint Trainer::snapshot() const {
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
  return core_->measure_update();
}

base::Result<double> Trainer::measure_all_reduce(comm::Group& group) {
  return core_->measure_all_reduce(group);
}

StateBytes Trainer::state_bytes() const {
  return core_->state_bytes();
}

std::vector<double> Trainer::bucket_mebibytes() const {
  return core_->bucket_mebibytes();
}

const LaneReport& Trainer::last_lane() const {
  return core_->last_lane;
}

}  // namespace yoke::engine
