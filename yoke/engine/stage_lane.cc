#include "yoke/engine/stage_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "yoke/base/mutex.h"
#include "yoke/base/thread.h"
#include "yoke/engine/flow_mail.h"
#include "yoke/engine/replica.h"
#include "yoke/plan/schedule_run.h"

namespace yoke::engine {
namespace {

using plan::Payload;
using plan::ScheduleOp;
using plan::ScheduleOpKind;

constexpr int kTrack = 0;  // of the trace

/// A worker between its forward and its backward pass.
struct InFlight {
  Work work;
  std::vector<Crossing> received;   // activations; those that want a gradient are leaves of the graph
  std::vector<Crossing> outputs;    // what goes to the next stage
  models::Score score;              // of the last stage
  std::vector<Crossing> gradients;  // of the outputs
  std::vector<Crossing> returns;    // gradients for the stage before
};

}  // namespace

struct StageLane::Core {
  Core(const models::Architecture& model, Holding& part, comm::Group& in, tensor::Device& on, const LaneOptions& how,
       const base::Clock& time)
      : architecture(model),
        holding(part),
        device(on),
        options(how),
        clock(time),
        mail(in, on, time),
        thread(std::make_unique<base::Worker>("stage", [this](const std::stop_token& stop) { return serve(stop); })) {}

  ~Core() {
    {
      base::MutexLock lock(mutex);
      stopping = true;
      changed.notify_all();
    }
    thread.reset();
  }

  base::Status serve(const std::stop_token& stop) {
    const auto entered = device.enter(0, 1);
    for (;;) {
      {
        base::MutexLock lock(mutex);
        while (!running && !stopping && !stop.stop_requested()) {
          changed.wait(mutex, base::Deadline::in(std::chrono::seconds(1), clock));
        }
        if (stopping || stop.stop_requested()) return {};
      }
      const auto done = run(*entered);
      base::MutexLock lock(mutex);
      if (!done.ok()) {
        error = done.error();
        holding.gradients().cancel(done.error());
      }
      flights.clear();
      running = false;
      changed.notify_all();
    }
  }

  base::Status run(tensor::Slot& entered) {
    std::vector<Mailing> expected;
    std::vector<int> leaving;  // own workers in the order of their backward passes
    recomputes = false;
    for (const auto& op : script.ops) {
      if (op.kind == ScheduleOpKind::kReceive && !without_samples.contains(op.worker)) expected.push_back(mailing(op));
      if (op.kind == ScheduleOpKind::kBackward) leaving.push_back(op.worker);
      recomputes = recomputes || op.kind == ScheduleOpKind::kRecompute;
    }
    mail.begin(std::move(expected), {.activations = script.unread_activations, .gradients = script.unread_gradients},
               until);
    if (!newest) newest = make_replica();
    replicas.clear();
    replicas[0] = newest;
    sum_open = false;
    std::size_t left = 0;
    for (std::size_t i = 0; i < script.ops.size(); ++i) {
      const ScheduleOp& op = script.ops[i];
      go_on();
      if (plan::on_reducer(op)) {
        if (!reducer) continue;
        YOKE_CHECK(reduce(op));
        const bool last = i + 1 == script.ops.size() || !plan::on_reducer(script.ops[i + 1]);
        if (!last) continue;
        sum_open = false;
        if (left < leaving.size()) steps_are_done(leaving[left] / script.workers_per_step);
        continue;
      }
      YOKE_CHECK(attempt(op.worker, [&] { return execute(op, i, entered); }));
      if (op.kind == ScheduleOpKind::kBackward) ++left;
    }
    return mail.finish();
  }

  /// Another op begins, which may itself wait for a thread.
  void go_on() {
    base::MutexLock lock(mutex);
    give_up = after_peers(after_peers(until()));
  }

  void steps_are_done(int steps) {
    base::MutexLock lock(mutex);
    steps_done = std::max(steps_done, steps);
    changed.notify_all();
  }

  Mailing mailing(const ScheduleOp& op) const {
    return {.peer = script.ranks[static_cast<std::size_t>(op.peer)], .payload = op.payload, .worker = op.worker};
  }

  base::Status execute(const ScheduleOp& op, std::size_t position, tensor::Slot& entered) {
    switch (op.kind) {
      case ScheduleOpKind::kStash:
        stash(op.version);
        return {};
      case ScheduleOpKind::kDrop:
        drop(op.version);
        return {};
      default:
        break;
    }
    InFlight& flight = flight_of(op.worker);
    const bool empty = flight.work.weight == 0;
    switch (op.kind) {
      case ScheduleOpKind::kLoad:
        return load(flight, op.worker);
      case ScheduleOpKind::kReceive: {
        if (empty) return {};
        const auto begin = clock.now();
        YOKE_TRY(auto crossings, mail.take(mailing(op)));
        options.trace.span(kTrack, fmt::format("wait for {} {}", plan_name(op.payload), op.worker), "wait", begin,
                           clock.now());
        (op.payload == Payload::kActivations ? flight.received : flight.gradients) = std::move(crossings);
        return {};
      }
      case ScheduleOpKind::kForward:
        if (!empty) YOKE_CHECK(timed("forward", op, entered, [&] { return forward_pass(flight, op, false); }));
        if (!script.training && script.last_stage) flights.erase(op.worker);
        return {};
      case ScheduleOpKind::kRecompute:
        if (empty) return {};
        return timed("recompute", op, entered, [&] { return forward_pass(flight, op, true); });
      case ScheduleOpKind::kBackward: {
        auto& replica = *replicas.at(op.version);
        if (reducer && !sum_open) open_sum(passes_of_sum(position));
        if (empty) {
          replica.backward({}, {}, 0);
        } else {
          YOKE_CHECK(timed("backward", op, entered, [&] { return backward_pass(flight, replica); }));
        }
        if (script.first_stage) flights.erase(op.worker);
        return {};
      }
      case ScheduleOpKind::kSend: {
        const bool activations = op.payload == Payload::kActivations;
        if (!empty) YOKE_CHECK(mail.send(mailing(op), activations ? flight.outputs : flight.returns));
        if (!activations || !script.training) flights.erase(op.worker);
        return {};
      }
      default:
        return base::Error{.kind = base::ErrorKind::kInternal, .message = "an op that stages do not know"};
    }
  }

  static std::string_view plan_name(Payload payload) {
    return payload == Payload::kActivations ? "activations" : "gradients";
  }

  InFlight& flight_of(int worker) {
    const auto found = flights.find(worker);
    if (found != flights.end()) return found->second;
    return flights.emplace(worker, InFlight{.work = supplier(worker)}).first->second;
  }

  base::Status timed(const char* what, const ScheduleOp& op, tensor::Slot& entered,
                     const std::function<base::Status()>& compute) {
    const auto begin = clock.now();
    YOKE_CHECK(compute());
    entered.finish();
    const auto end = clock.now();
    options.trace.span(kTrack, fmt::format("{} {}", what, op.worker), "compute", begin, end);
    wait_as_slow_device(options.speed, end - begin);
    const double seconds = base::to_seconds(clock.now() - begin);
    base::MutexLock lock(mutex);
    auto& report = report_of(op.worker);
    (op.kind == ScheduleOpKind::kForward ? report.forward_seconds : report.backward_seconds) += seconds;
    return {};
  }

  base::Status load(InFlight& flight, int worker) {
    const auto begin = clock.now();
    if (!flight.work.batch) {
      YOKE_TRY(flight.work.batch, flight.work.ticket->take(until()));
      flight.work.ticket.reset();
    }
    for (const auto& [name, tensor] : flight.work.batch->tensors) {
      flight.received.push_back({.name = name, .tensor = device.upload(tensor)});
    }
    const auto end = clock.now();
    options.trace.span(kTrack, "data", "data", begin, end);
    base::MutexLock lock(mutex);
    auto& report = report_of(worker);
    report.skipped += flight.work.batch->skipped;
    report.data_seconds += base::to_seconds(end - begin);
    flight.work.batch.reset();
    return {};
  }

  base::Status forward_pass(InFlight& flight, const ScheduleOp& op, bool again) {
    const bool train = script.training;
    // With recomputation the first pass leaves nothing behind but its input and its output.
    const bool keeps_graph = train && (again || !recomputes);
    Replica& replica = *replicas.at(op.version);
    if (!again) {
      for (auto& crossing : flight.received) {
        if (crossing.wants_gradient) crossing.tensor = crossing.tensor.detach().requires_grad_(true);
      }
    }
    models::NamedTensors inputs;
    for (const auto& crossing : flight.received) inputs.emplace_back(crossing.name, crossing.tensor);
    models::Flow flow(std::move(inputs));
    const models::Pass pass{.training = train, .generator = generator_for(flight.work.draw, device)};
    const bool keeps_buffers = train && !again && flight.work.worker == 0;
    auto& parameters = holding.parameters();
    if (keeps_buffers || !train) parameters.copy_buffers_to(replica.network());

    const torch::AutoGradMode grad(keeps_graph);
    forward(replica.network(), flow, pass, options.precision, device.where());
    if (keeps_buffers) parameters.copy_buffers_from(replica.network());
    if (script.last_stage) {
      flight.score = architecture.loss(flow, options.loss, !train);
      if (!again) {
        const double loss = flight.score.loss.item<double>();
        base::MutexLock lock(mutex);
        report_of(op.worker).add(flight.score, loss, flight.work.worker);
      }
      return {};
    }
    // Without a graph an output does not tell whether it would want a gradient: what is a fraction does.
    flight.outputs.clear();
    for (const auto& [name, tensor] : flow.tensors()) {
      const bool wants = keeps_graph ? tensor.requires_grad() : train && tensor.is_floating_point();
      flight.outputs.push_back({.name = name, .tensor = tensor, .wants_gradient = wants});
    }
    return {};
  }

  base::Status backward_pass(InFlight& flight, Replica& replica) {
    std::vector<torch::Tensor> roots;
    std::vector<torch::Tensor> with;
    if (script.last_stage) {
      const double scale = flight.work.loss_scale;
      roots.push_back(scale == 1 ? flight.score.loss : flight.score.loss * scale);
    } else {
      for (const auto& gradient : flight.gradients) {
        if (!gradient.tensor.defined()) continue;
        const auto output = std::ranges::find(flight.outputs, gradient.name, &Crossing::name);
        if (output == flight.outputs.end()) {
          return base::peer_error(
              fmt::format("the next stage sent a gradient of `{}`, which it was not given", gradient.name));
        }
        if (!output->tensor.requires_grad()) continue;
        roots.push_back(output->tensor);
        with.push_back(gradient.tensor);
      }
    }
    replica.backward(roots, with, flight.work.weight);
    for (auto& crossing : flight.received) {
      if (crossing.wants_gradient) flight.returns.push_back({.name = crossing.name, .tensor = crossing.tensor.grad()});
    }
    flight.received.clear();
    flight.outputs.clear();
    flight.gradients.clear();
    flight.score = {};
    return {};
  }

  // ---- versions ------------------------------------------------------------------------------------------------

  std::shared_ptr<Replica> make_replica() {
    return std::make_shared<Replica>(architecture, holding.range().first, holding.range().last, holding.parameters(),
                                     holding.gradients(), device.where());
  }

  /// The next update writes into other storage; the replica of `version` keeps this one.
  void stash(int version) {
    base::require(replicas.contains(version), "a version that is stashed is not there");
    holding.parameters().renew_weights();
    if (spare.empty()) {
      newest = make_replica();
    } else {
      newest = std::move(spare.back());
      spare.pop_back();
      holding.parameters().adopt(newest->network());
    }
  }

  void drop(int version) {
    const auto found = replicas.find(version);
    base::require(found != replicas.end() && found->second != newest, "a version that is dropped is not stashed");
    spare.push_back(std::move(found->second));
    replicas.erase(found);
  }

  /// How many backward passes of this device go into the sum that the one at `position` begins.
  int passes_of_sum(std::size_t position) const {
    int passes = 0;
    for (std::size_t i = position; i < script.ops.size() && !plan::on_reducer(script.ops[i]); ++i) {
      if (script.ops[i].kind == ScheduleOpKind::kBackward) ++passes;
    }
    return passes;
  }
  void open_sum(int passes) {
    holding.gradients().begin(passes);
    sum_open = true;
  }

  base::Status reduce(const ScheduleOp& op) {
    if (!sum_open) open_sum(0);  // this device had no worker in this round
    YOKE_CHECK(reducer(op, until()));
    if (op.kind != ScheduleOpKind::kUpdate) return {};
    replicas[op.version] = newest;
    // Without a stash the update has changed the weights in place: the version before is no more.
    std::erase_if(replicas, [&](const auto& one) { return one.second == newest && one.first != op.version; });
    return {};
  }

  const models::Architecture& architecture;
  Holding& holding;
  tensor::Device& device;
  const LaneOptions options;
  const base::Clock& clock;

  LaneReport& report_of(int worker) YOKE_REQUIRES(mutex) { return reports[worker / script.workers_per_step]; }

  void begin(StageScript what, Supplier who, ReducerStep how, std::set<int> absent, Until by) {
    base::MutexLock lock(mutex);
    base::require(!running, "a stage is given a script while it runs one");
    script = std::move(what);
    supplier = std::move(who);
    reducer = std::move(how);
    without_samples = std::move(absent);
    until = std::move(by);
    give_up = after_peers(after_peers(until()));
    reports.clear();
    error.reset();
    steps_done = 0;
    running = true;
    changed.notify_all();
  }

  // Of the script that runs; written while the thread waits.
  StageScript script;
  Supplier supplier;
  ReducerStep reducer;
  std::set<int> without_samples;  // passed over by all stages alike: they all know its weight
  Until until;

  // The thread's.
  FlowMail mail;
  std::unordered_map<int, InFlight> flights;
  std::map<int, std::shared_ptr<Replica>> replicas;  // by version
  std::shared_ptr<Replica> newest;
  std::vector<std::shared_ptr<Replica>> spare;
  bool recomputes = false;
  bool sum_open = false;

  base::Mutex mutex;
  base::Condition changed;
  bool running YOKE_GUARDED_BY(mutex) = false;
  bool stopping YOKE_GUARDED_BY(mutex) = false;
  int steps_done YOKE_GUARDED_BY(mutex) = 0;
  base::Deadline give_up YOKE_GUARDED_BY(mutex) = base::Deadline::at({});  // on the op that runs
  std::map<int, LaneReport> reports YOKE_GUARDED_BY(mutex);                // by step of the script
  std::optional<base::Error> error YOKE_GUARDED_BY(mutex);
  std::unique_ptr<base::Worker> thread;  // last: it uses everything above
};

StageLane::StageLane(const models::Architecture& architecture, Holding& holding, comm::Group& group,
                     tensor::Device& device, const LaneOptions& options, const base::Clock& clock)
    : core_(std::make_unique<Core>(architecture, holding, group, device, options, clock)) {}

StageLane::~StageLane() = default;

void StageLane::start(StageScript script, std::vector<Work> work, const base::Deadline& deadline) {
  std::set<int> absent;
  auto by_worker = std::make_shared<std::unordered_map<int, Work>>();
  for (auto& one : work) {
    const auto worker = static_cast<int>(one.worker);
    if (one.weight == 0) absent.insert(worker);
    by_worker->emplace(worker, std::move(one));
  }
  core_->begin(
      std::move(script), [by_worker](int worker) { return std::move(by_worker->at(worker)); }, nullptr,
      std::move(absent), [deadline] { return deadline; });
}

void StageLane::start(StageScript script, Supplier supplier, ReducerStep reducer, base::Duration patience) {
  core_->begin(std::move(script), std::move(supplier), std::move(reducer), {},
               [patience, &clock = core_->clock] { return base::Deadline::in(patience, clock); });
}

base::Result<LaneReport> StageLane::reach(int steps) {
  base::MutexLock lock(core_->mutex);
  while (core_->running && core_->steps_done < steps) {
    if (core_->give_up.passed(core_->clock)) {
      return base::peer_error("this device's stage did not come to the end of the step in time");
    }
    core_->changed.wait(core_->mutex, core_->give_up);
  }
  if (core_->error) return *core_->error;
  return core_->reports[steps - 1];
}

base::Result<LaneReport> StageLane::finish() {
  base::MutexLock lock(core_->mutex);
  while (core_->running) {
    if (core_->give_up.passed(core_->clock)) {
      return base::peer_error("this device's stage did not finish its step in time");
    }
    core_->changed.wait(core_->mutex, core_->give_up);
  }
  if (core_->error) return *core_->error;
  LaneReport sum;
  for (const auto& [step, report] : core_->reports) {
    sum.loss += report.loss;
    sum.samples += report.samples;
    sum.skipped += report.skipped;
    sum.correct += report.correct;
    if (!sum.bad_worker) sum.bad_worker = report.bad_worker;
    sum.data_seconds += report.data_seconds;
    sum.forward_seconds += report.forward_seconds;
    sum.backward_seconds += report.backward_seconds;
  }
  return sum;
}

}  // namespace yoke::engine
