#include "yoke/engine/data_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "yoke/base/thread.h"
#include "yoke/engine/replica.h"

namespace yoke::engine {
namespace {

using Clock = base::Clock;

// Points in the work of a slot.
constexpr int kBegin = 0;
constexpr int kForwardDone = 1;
constexpr int kBackwardDone = 2;

}  // namespace

struct DataLane::Core {
  Core(const models::Architecture& model, Parameters& flat, GradientSum& sum, tensor::Device& on,
       const LaneOptions& how, const Clock& time)
      : architecture(model), parameters(flat), gradients(sum), device(on), options(how), clock(time) {}

  /// One of the workers that run at once.
  struct Slot {
    Slot(Core& core, int number)
        : index(number),
          replica(core.architecture, 0, core.architecture.blocks.size(), core.parameters, core.gradients,
                  core.device.where()),
          thread(fmt::format("worker-{}", number),
                 [this, &core](const std::stop_token& stop) { return core.serve(*this, stop); }) {}
    const int index;
    Replica replica;
    base::Worker thread;  // last: it uses everything above
  };

  ~Core() {
    {
      base::MutexLock lock(mutex);
      stopping = true;
      changed.notify_all();
    }
    slots.clear();
  }

  void begin(std::vector<Work> work, bool train, const base::Deadline& by) {
    base::MutexLock lock(mutex);
    report = {};
    error.reset();
    training = train;
    deadline = by;
    slot_seconds.assign(slots.size(), {});
    queue.clear();
    for (auto& one : work) queue.push_back(std::move(one));
    unfinished = queue.size();
    started = queue.size();
    met = 0;
    changed.notify_all();
  }

  base::Status run_here(std::vector<Work> work, bool train, const base::Deadline& by) {
    begin({}, train, by);
    if (!here) here = device.enter(0, 1);
    for (auto& one : work) {
      const auto done = attempt(one.worker, [&] { return compute(*slots[0], one, train, *here, by); });
      if (done.ok()) continue;
      gradients.cancel(done.error());
      return done.error();
    }
    return {};
  }

  /// Until all workers of the same round are here.
  void meet(const base::Deadline& by) {
    base::MutexLock lock(mutex);
    const std::size_t round = met++ / slots.size();
    const std::size_t wanted = std::min((round + 1) * slots.size(), started);
    changed.notify_all();
    while (met < wanted && !error && changed.wait(mutex, by)) {
    }
  }

  base::Status serve(Slot& slot, const std::stop_token& stop) {
    std::unique_ptr<tensor::Slot> entered;
    int entered_slots = 0;
    for (;;) {
      Work work;
      bool train = true;
      base::Deadline by = base::Deadline::at({});
      {
        base::MutexLock lock(mutex);
        while (queue.empty() && !stopping && !stop.stop_requested()) {
          changed.wait(mutex, base::Deadline::in(std::chrono::seconds(1), clock));
        }
        if (stopping || stop.stop_requested()) return {};
        work = std::move(queue.front());
        queue.pop_front();
        train = training;
        by = deadline;
        if (entered_slots != static_cast<int>(slots.size())) {
          entered_slots = static_cast<int>(slots.size());
          entered.reset();
        }
      }
      if (!entered) entered = device.enter(slot.index, entered_slots);
      const auto done = attempt(work.worker, [&] { return compute(slot, work, train, *entered, by); });
      base::MutexLock lock(mutex);
      if (!done.ok() && !error) {
        error = done.error();
        gradients.cancel(done.error());
        unfinished -= queue.size();
        queue.clear();
      }
      --unfinished;
      changed.notify_all();
    }
  }

  base::Status compute(Slot& slot, Work& work, bool train, tensor::Slot& entered, const base::Deadline& by) {
    const auto asked = clock.now();
    if (!work.batch) {
      YOKE_TRY(work.batch, work.ticket->take(by));
      work.ticket.reset();
    }
    const data::Batch& batch = *work.batch;
    const auto begin = clock.now();
    options.trace.span(slot.index, "data", "data", asked, begin);
    if (batch.samples == 0) {
      // Every sample was corrupt: a worker without samples counts, with nothing.
      for (std::size_t i = 0; train && i < parameters.count(); ++i) gradients.add(i, {}, work.weight);
      base::MutexLock lock(mutex);
      report.skipped += batch.skipped;
      return {};
    }
    entered.mark(kBegin);
    models::NamedTensors inputs;
    for (const auto& [name, tensor] : batch.tensors) inputs.emplace_back(name, device.upload(tensor));
    models::Flow flow(std::move(inputs));
    const models::Pass pass{.training = train, .generator = generator_for(work.draw, device)};
    const bool keeps_buffers = train && work.worker == 0;
    if (keeps_buffers || !train) parameters.copy_buffers_to(slot.replica.network());

    models::Score score;
    {
      const torch::AutoGradMode grad(train);
      forward(slot.replica.network(), flow, pass, options.precision, device.where());
      score = architecture.loss(flow, options.loss, !train);
    }
    const double loss = score.loss.item<double>();  // waits for the device
    entered.mark(kForwardDone);
    if (train && options.meet) meet(by);
    const auto middle = clock.now();
    if (train) {
      slot.replica.backward({work.loss_scale == 1 ? score.loss : score.loss * work.loss_scale}, {}, work.weight);
    }
    if (keeps_buffers) parameters.copy_buffers_from(slot.replica.network());
    entered.mark(kBackwardDone);
    entered.finish();
    const auto end = clock.now();
    options.trace.span(slot.index, fmt::format("forward {}", work.worker), "compute", begin, middle);
    if (train) options.trace.span(slot.index, fmt::format("backward {}", work.worker), "compute", middle, end);
    wait_as_slow_device(options.speed, end - begin);

    base::MutexLock lock(mutex);
    report.add(score, loss, work.worker);
    report.skipped += batch.skipped;
    auto& seconds = slot_seconds[static_cast<std::size_t>(slot.index)];
    seconds.data += base::to_seconds(begin - asked);
    seconds.forward += entered.seconds_between(kBegin, kForwardDone) / options.speed;
    seconds.backward += entered.seconds_between(kForwardDone, kBackwardDone) / options.speed;
    return {};
  }

  struct Seconds {
    double data = 0;
    double forward = 0;
    double backward = 0;
  };

  const models::Architecture& architecture;
  Parameters& parameters;
  GradientSum& gradients;
  tensor::Device& device;
  const LaneOptions options;
  const Clock& clock;

  base::Mutex mutex;
  base::Condition changed;
  std::deque<Work> queue YOKE_GUARDED_BY(mutex);
  std::size_t unfinished YOKE_GUARDED_BY(mutex) = 0;  // in the queue or in a slot's hands
  std::size_t started YOKE_GUARDED_BY(mutex) = 0;     // workers of this step
  std::size_t met YOKE_GUARDED_BY(mutex) = 0;         // of them, those that came to meet()
  bool training YOKE_GUARDED_BY(mutex) = true;
  bool stopping YOKE_GUARDED_BY(mutex) = false;
  base::Deadline deadline YOKE_GUARDED_BY(mutex) = base::Deadline::at({});
  LaneReport report YOKE_GUARDED_BY(mutex);
  std::vector<Seconds> slot_seconds YOKE_GUARDED_BY(mutex);
  std::optional<base::Error> error YOKE_GUARDED_BY(mutex);
  std::unique_ptr<tensor::Slot> here;        // of the thread that calls run_here()
  std::vector<std::unique_ptr<Slot>> slots;  // last: their threads use everything above; changed while they are idle
};

DataLane::DataLane(const models::Architecture& architecture, Parameters& parameters, GradientSum& gradients,
                   tensor::Device& device, const LaneOptions& options, const Clock& clock)
    : core_(std::make_unique<Core>(architecture, parameters, gradients, device, options, clock)) {}

DataLane::~DataLane() = default;

void DataLane::resize(int vsw) {
  const auto wanted = static_cast<std::size_t>(vsw);
  std::vector<std::unique_ptr<Core::Slot>> leaving;
  while (core_->slots.size() < wanted) {
    auto slot = std::make_unique<Core::Slot>(*core_, static_cast<int>(core_->slots.size()));
    base::MutexLock lock(core_->mutex);
    core_->slots.push_back(std::move(slot));
  }
  base::MutexLock lock(core_->mutex);
  while (core_->slots.size() > wanted) {
    core_->slots.back()->thread.request_stop();
    leaving.push_back(std::move(core_->slots.back()));
    core_->slots.pop_back();
  }
  core_->changed.notify_all();
}

int DataLane::vsw() const {
  return static_cast<int>(core_->slots.size());
}

void DataLane::start(std::vector<Work> work, const base::Deadline& deadline) {
  core_->begin(std::move(work), true, deadline);
}

base::Result<LaneReport> DataLane::run_here(std::vector<Work> work, const base::Deadline& deadline) {
  YOKE_CHECK(core_->run_here(std::move(work), true, deadline));
  return finish(deadline);
}

base::Result<LaneReport> DataLane::evaluate(std::vector<Work> work, bool here, const base::Deadline& deadline) {
  if (here) {
    YOKE_CHECK(core_->run_here(std::move(work), false, deadline));
  } else {
    core_->begin(std::move(work), false, deadline);
  }
  return finish(deadline);
}

base::Result<LaneReport> DataLane::finish(const base::Deadline& deadline) {
  base::MutexLock lock(core_->mutex);
  while (core_->unfinished > 0) {
    if (!core_->changed.wait(core_->mutex, deadline) && core_->unfinished > 0) {
      return base::peer_error(fmt::format("{} workers of this device did not finish in time", core_->unfinished));
    }
  }
  if (core_->error) return *core_->error;
  LaneReport report = core_->report;
  for (const auto& seconds : core_->slot_seconds) {
    report.data_seconds = std::max(report.data_seconds, seconds.data);
    report.forward_seconds = std::max(report.forward_seconds, seconds.forward);
    report.backward_seconds = std::max(report.backward_seconds, seconds.backward);
  }
  return report;
}

}  // namespace yoke::engine
