#include "yoke/sim/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "yoke/base/rng.h"
#include "yoke/plan/schedule_run.h"
#include "yoke/sim/books.h"
#include "yoke/sim/event_queue.h"
#include "yoke/sim/wiring.h"

namespace yoke::sim {
namespace {

using plan::Payload;
using plan::ScheduleOp;
using Kind = plan::ScheduleOpKind;

/// How far a message is.
struct Sent {
  double at = std::numeric_limits<double>::infinity();
  double bytes = 0;
  bool there = false;
  double computed_from = 0;  // Device::computed of both ends when it was sent
  double computed_to = 0;
};

/// How far a collective is.
struct Joined {
  int arrived = 0;  // members
  double begin = 0;
  bool over = false;
};

struct Device {
  std::size_t compute = 0;  // the op that is under way or next
  std::size_t reducer = 0;
  bool computing = false;
  bool updating = false;
  bool arrived = false;       // at the collective of the reducer stream
  bool look_ordered = false;  // a kLook for the bucket of the reducer stream is on its way
  int updates = 0;            // done
  // The newest backward pass that was begun.
  int backward = -1;
  double backward_begin = 0;
  double backward_seconds = 0;
  double op_begin = 0;
  // Passes give way to what else a processor has to do: moving bytes, updates.
  double computed = 0;         // seconds in passes, up to the last that is over
  double computed_before = 0;  // when the collective or update of the reducer stream began
  double owed = 0;             // seconds by which the pass that is under way, or the next, is longer
};

class Run {
 public:
  Run(const plan::Schedule& schedule, const Costs& costs, const Network& network, const SimOptions& options)
      : schedule_(schedule),
        costs_(costs),
        network_(network),
        options_(options),
        transfers_(network),
        wiring_(Wiring::make(schedule, costs, network)),
        devices_(schedule.programs.size()),
        messages_(wiring_.messages.size()),
        collectives_(wiring_.collectives.size()),
        books_(devices_.size(), schedule.steps, options.record) {}

  base::Result<SimReport> finish() {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const ProgramCosts& cost = costs_.programs[d];
      books_.hold(d, 0, cost.fixed_bytes + cost.weight_bytes);
    }
    for (std::size_t d = 0; d < devices_.size(); ++d) advance(d);
    while (!events_.empty()) {
      const Event event = events_.take();
      now_ = event.at;
      happen(event);
    }
    for (std::size_t d = 0; d < devices_.size(); ++d) YOKE_CHECK(check_ended(d));
    return books_.close(last_);
  }

 private:
  using Track = Span::Track;

  base::Status check_ended(std::size_t d) const {
    const auto& program = schedule_.programs[d];
    const std::size_t op = std::min(devices_[d].compute, devices_[d].reducer);
    if (op >= program.ops.size()) return {};
    return base::Error{base::ErrorKind::kInternal,
                       fmt::format("simulation: {} stands still at op {} ({}) after {} s", program.device.to_string(),
                                   op, plan::describe(program.ops[op], schedule_), now_)};
  }

  const OpLink& link_at(std::size_t d, std::size_t index) const { return wiring_.links[d][index]; }

  void order_looks() {
    for (const auto& look : transfers_.looks()) {
      events_.order(look.at, EventKind::kMoved, static_cast<std::size_t>(look.transfer), look.turn);
    }
    transfers_.looks().clear();
  }

  void happen(const Event& event) {
    if (event.kind == EventKind::kMoved) {
      const bool over = transfers_.over(now_, static_cast<int>(event.a), event.b);
      order_looks();
      if (!over) return;
    }
    books_.count_event();
    const auto a = static_cast<std::size_t>(event.a);
    switch (event.kind) {
      case EventKind::kComputed:
        computed(a);
        break;
      case EventKind::kUpdated:
        updated(a);
        break;
      case EventKind::kLook:
        devices_[a].look_ordered = false;
        advance(a);
        break;
      case EventKind::kMoved:
        moved(a);
        break;
      case EventKind::kDelivered:
        delivered(a);
        break;
      case EventKind::kReduced:
        reduced(a);
        break;
    }
  }

  /// As far as both streams of the device go now.
  void advance(std::size_t d) {
    bool again = true;
    while (again) {
      again = compute(d);
      again = reduce(d) || again;
    }
  }

  const ScheduleOp& op_at(std::size_t d, std::size_t index) const { return schedule_.programs[d].ops[index]; }

  // Compute stream ---------------------------------------------------------------------------------------------------

  bool compute(std::size_t d) {
    Device& device = devices_[d];
    const auto& ops = schedule_.programs[d].ops;
    bool moved = false;
    while (!device.computing && device.compute < ops.size()) {
      const ScheduleOp& op = ops[device.compute];
      if (plan::on_reducer(op)) {
        ++device.compute;
        continue;
      }
      if (!can_begin(d, op)) {
        if (!books_.waits(d)) books_.begin_wait(d, now_);
        return moved;
      }
      if (books_.waits(d)) end_wait(d, op);
      begin(d, op);
      moved = true;
    }
    // What is left is the reducer stream's, until the end of the span.
    if (!device.computing && !books_.waits(d)) books_.begin_wait(d, now_);
    return moved;
  }

  bool version_there(std::size_t d, int version) const {
    const int buckets = wiring_.buckets[d];
    return buckets == 0 || devices_[d].updates >= version * buckets;
  }

  bool can_begin(std::size_t d, const ScheduleOp& op) const {
    const Device& device = devices_[d];
    switch (op.kind) {
      case Kind::kReceive:
        return message_at(d).there;
      case Kind::kForward:
      case Kind::kRecompute:
      case Kind::kStash:
        return version_there(d, op.version);
      case Kind::kBackward:
        return version_there(d, op.version) && device.reducer >= device.compute;
      default:
        return true;
    }
  }

  /// That the compute stream is about to send or receive.
  const Sent& message_at(std::size_t d) const {
    return messages_[static_cast<std::size_t>(link_at(d, devices_[d].compute).id)];
  }

  void end_wait(std::size_t d, const ScheduleOp& op) {
    if (op.kind == Kind::kReceive) {
      books_.end_wait_for_message(d, now_, message_at(d).at);
    } else {
      books_.end_wait(d, now_);
    }
  }

  double seconds_of(std::size_t d, const ScheduleOp& op) const {
    const ProgramCosts& cost = costs_.programs[d];
    double seconds = 0;
    switch (op.kind) {
      case Kind::kLoad:
        seconds = cost.load;
        break;
      case Kind::kForward:
        seconds = cost.forward;
        break;
      case Kind::kRecompute:
        seconds = cost.recompute;
        break;
      case Kind::kBackward:
        seconds = cost.backward;
        break;
      default:
        return 0;
    }
    seconds *= static_cast<double>(op.count) / cost.round_workers;
    if (options_.jitter > 0) {
      base::Stream random({.seed = options_.seed,
                           .step = devices_[d].compute,
                           .worker = static_cast<std::uint32_t>(d),
                           .purpose = base::Purpose::kSimulate});
      seconds *= 1 + options_.jitter * (2 * random.uniform() - 1);
    }
    return seconds;
  }

  void begin(std::size_t d, const ScheduleOp& op) {
    Device& device = devices_[d];
    const ProgramCosts& cost = costs_.programs[d];
    switch (op.kind) {
      case Kind::kReceive:
      case Kind::kStash:
        ++device.compute;
        return;
      case Kind::kDrop:
        books_.hold(d, now_, -cost.weight_bytes);
        ++device.compute;
        return;
      case Kind::kSend:
        send(d, op);
        ++device.compute;
        return;
      default:
        break;
    }
    const double seconds = seconds_of(d, op);
    device.computing = true;
    device.op_begin = now_;
    if (op.kind == Kind::kForward) books_.hold(d, now_, op.count * (cost.worker_bytes - received_bytes(d)));
    if (op.kind == Kind::kRecompute) books_.hold(d, now_, op.count * (cost.worker_bytes - cost.input_bytes));
    if (op.kind == Kind::kBackward) {
      device.backward = static_cast<int>(device.compute);
      device.backward_begin = now_;
      device.backward_seconds = seconds;
    }
    events_.order(now_ + seconds, EventKind::kComputed, d);
  }

  /// Of a worker's input, what is held from its arrival.
  double received_bytes(std::size_t d) const {
    return schedule_.programs[d].first_stage() ? 0 : costs_.programs[d].input_bytes;
  }

  void send(std::size_t d, const ScheduleOp& op) {
    const auto id = static_cast<std::size_t>(link_at(d, devices_[d].compute).id);
    const MessageCost& cost =
        op.payload == Payload::kActivations ? costs_.programs[d].activations : costs_.programs[d].gradients;
    messages_[id] = {.at = now_,
                     .bytes = cost.bytes,
                     .computed_from = computed_by_now(d),
                     .computed_to = computed_by_now(static_cast<std::size_t>(op.peer))};
    if (options_.record) sent_by_.insert_or_assign(static_cast<int>(id), std::pair{static_cast<int>(d), op});
    const Path& path = wiring_.paths[static_cast<std::size_t>(wiring_.messages[id].path)];
    if (cost.bytes <= 0 || path.resources.empty()) {
      events_.order(now_ + cost.seconds + path.latency, EventKind::kDelivered, id);
      return;
    }
    const int transfer = transfers_.begin(now_, cost.bytes, path);
    remember(transfer, false, static_cast<int>(id), cost.seconds + path.latency);
    order_looks();
  }

  double computed_by_now(std::size_t d) const {
    const Device& device = devices_[d];
    return device.computed + (device.computing ? now_ - device.op_begin : 0);
  }

  /// The processor of device `d` has spent `seconds` on something else since `begin`, when its passes had taken
  /// `computed`: those that ran beside it last that much longer.
  void take_from_passes(std::size_t d, double seconds, double begin, double computed) {
    if (seconds <= 0 || now_ <= begin || !network_.is_processor(static_cast<int>(d))) return;
    devices_[d].owed += seconds * (computed_by_now(d) - computed) / (now_ - begin);
  }

  void computed(std::size_t d) {
    Device& device = devices_[d];
    if (device.owed > 0) {
      events_.order(now_ + device.owed, EventKind::kComputed, d);
      device.owed = 0;
      return;
    }
    const ScheduleOp& op = op_at(d, device.compute);
    const ProgramCosts& cost = costs_.programs[d];
    const auto& program = schedule_.programs[d];
    books_.record(d, Track::kCompute, op, device.op_begin, now_);
    books_.computed(d, op.kind, now_ - device.op_begin);
    if (op.kind == Kind::kForward && schedule_.forward_only) {
      books_.hold(d, now_, -op.count * cost.worker_bytes);
      step_over(op.worker + op.count - 1);
    } else if (op.kind == Kind::kForward && program.recompute) {
      books_.hold(d, now_, -op.count * (cost.worker_bytes - cost.input_bytes));
    } else if (op.kind == Kind::kBackward) {
      // With the gradient that came for it.
      books_.hold(d, now_, -op.count * (cost.worker_bytes + (program.last_stage() ? 0 : cost.activations.bytes)));
      step_over(op.worker + op.count - 1);
    }
    device.computed += now_ - device.op_begin;
    device.computing = false;
    ++device.compute;
    last_ = std::max(last_, now_);
    advance(d);
  }

  void step_over(int worker) { books_.step_reached(worker / schedule_.step_workers, now_); }

  void delivered(std::size_t id) {
    Sent& message = messages_[id];
    message.there = true;
    const MessageRoute& route = wiring_.messages[id];
    const auto d = static_cast<std::size_t>(route.to);
    const double processor = message.bytes * wiring_.paths[static_cast<std::size_t>(route.path)].processor;
    take_from_passes(static_cast<std::size_t>(route.from), processor, message.at, message.computed_from);
    take_from_passes(d, processor, message.at, message.computed_to);
    books_.hold(d, now_, message.bytes);
    if (options_.record) {
      const auto& [from, op] = sent_by_.at(static_cast<int>(id));
      books_.record(static_cast<std::size_t>(from), Track::kNetwork, op, message.at, now_);
    }
    advance(d);
  }

  // Reducer stream ---------------------------------------------------------------------------------------------------

  bool reduce(std::size_t d) {
    Device& device = devices_[d];
    const auto& ops = schedule_.programs[d].ops;
    bool moved = false;
    while (!device.updating && device.reducer < ops.size()) {
      const ScheduleOp& op = ops[device.reducer];
      if (!plan::on_reducer(op)) {
        ++device.reducer;
        moved = true;
        continue;
      }
      const OpLink& link = link_at(d, device.reducer);
      if (op.kind == Kind::kUpdate) {
        begin_update(d, op, link);
        return moved;
      }
      if (!device.arrived) {
        if (!filled(d, link)) return moved;
        arrive(d, static_cast<std::size_t>(link.id));
      }
      if (!collectives_[static_cast<std::size_t>(link.id)].over) return moved;
      device.arrived = false;
      ++device.reducer;
      moved = true;
    }
    return moved;
  }

  /// Whether the gradients of the bucket are there; if they will be at a known time, it looks again then.
  bool filled(std::size_t d, const OpLink& link) {
    Device& device = devices_[d];
    if (link.backward < 0 || device.compute > static_cast<std::size_t>(link.backward)) return true;
    if (device.backward != link.backward) return false;
    if (schedule_.sync == plan::Sync::kSequential) return false;
    const double part = link.bucket < 0 ? 1 : costs_.programs[d].buckets[static_cast<std::size_t>(link.bucket)].ready;
    const double ready = device.backward_begin + part * device.backward_seconds;
    if (now_ >= ready) return true;
    if (!device.look_ordered && part < 1) {
      device.look_ordered = true;
      events_.order(ready, EventKind::kLook, d);
    }
    return false;
  }

  std::size_t members(const Collective& collective) const {
    return collective.segment < 0 ? devices_.size()
                                  : schedule_.segments[static_cast<std::size_t>(collective.segment)].holders.size();
  }

  template <typename Visit>
  void for_each_member(const Collective& collective, Visit visit) {
    if (collective.segment < 0) {
      for (std::size_t d = 0; d < devices_.size(); ++d) visit(d);
    } else {
      for (const int holder : schedule_.segments[static_cast<std::size_t>(collective.segment)].holders) {
        visit(static_cast<std::size_t>(holder));
      }
    }
  }

  /// That each member sends, and receives.
  double bytes_around(const Collective& collective) const {
    const double count = static_cast<double>(members(collective));
    return 2 * (count - 1) / count * collective.bytes;
  }

  void arrive(std::size_t d, std::size_t id) {
    const Collective& collective = wiring_.collectives[id];
    Joined& joined = collectives_[id];
    devices_[d].arrived = true;
    if (static_cast<std::size_t>(++joined.arrived) < members(collective)) return;
    joined.begin = now_;
    for_each_member(collective, [&](std::size_t member) {
      books_.begin_reduce(member, now_);
      devices_[member].computed_before = computed_by_now(member);
    });
    if (collective.segment < 0) {
      events_.order(now_ + network_.tree_latency(), EventKind::kReduced, id);
      return;
    }
    const Path& ring = wiring_.rings[static_cast<std::size_t>(collective.segment)];
    const double bytes = bytes_around(collective);
    if (bytes <= 0 || ring.resources.empty()) {
      events_.order(now_ + collective.seconds + ring.latency, EventKind::kReduced, id);
      return;
    }
    const int transfer = transfers_.begin(now_, bytes * ring.stretch, ring);
    remember(transfer, true, static_cast<int>(id), collective.seconds + ring.latency);
    order_looks();
  }

  void reduced(std::size_t id) {
    const Collective& collective = wiring_.collectives[id];
    Joined& joined = collectives_[id];
    joined.over = true;
    last_ = std::max(last_, now_);
    const bool norm = collective.segment < 0;
    const double processor =
        norm ? 0 : 2 * bytes_around(collective) * wiring_.rings[static_cast<std::size_t>(collective.segment)].processor;
    for_each_member(collective, [&](std::size_t d) {
      books_.end_reduce(d, now_);
      take_from_passes(d, processor, joined.begin, devices_[d].computed_before);
      books_.record(d, Track::kReducer, op_at(d, devices_[d].reducer), joined.begin, now_);
    });
    for_each_member(collective, [&](std::size_t d) { advance(d); });
  }

  void begin_update(std::size_t d, const ScheduleOp& op, const OpLink& link) {
    Device& device = devices_[d];
    device.updating = true;
    books_.begin_update(d, now_);
    device.computed_before = computed_by_now(d);
    const bool first = device.updates % wiring_.buckets[d] == 0;
    // A version that was stashed stays; the new one is held beside it.
    if (first && stashed(d, op.version - 1)) books_.hold(d, now_, costs_.programs[d].weight_bytes);
    events_.order(now_ + costs_.programs[d].buckets[static_cast<std::size_t>(link.bucket)].update_seconds,
                  EventKind::kUpdated, d);
  }

  /// Whether the list stashes the version before the update at the reducer's place.
  bool stashed(std::size_t d, int version) const {
    const auto kind = schedule_.programs[d].kind;
    if (plan::keeps_the_math(kind)) return false;
    const auto& ops = schedule_.programs[d].ops;
    // At most a round back: where the update of this version begins.
    for (std::size_t i = devices_[d].reducer; i-- > 0;) {
      if (ops[i].kind == Kind::kStash && ops[i].version == version) return true;
      if (ops[i].kind == Kind::kUpdate && ops[i].version == version) return false;
    }
    return false;
  }

  void updated(std::size_t d) {
    Device& device = devices_[d];
    const ScheduleOp& op = op_at(d, device.reducer);
    device.updating = false;
    ++device.updates;
    ++device.reducer;
    const double begin = books_.end_update(d, now_);
    take_from_passes(d, now_ - begin, begin, device.computed_before);
    books_.record(d, Track::kReducer, op, begin, now_);
    last_ = std::max(last_, now_);
    if (schedule_.programs[d].kind != plan::ScheduleKind::kStash) books_.step_reached(op.version - 1, now_);
    advance(d);
  }

  // Transfers --------------------------------------------------------------------------------------------------------

  struct Carried {
    bool collective = false;
    int id = 0;
    double after = 0;  // seconds from the last byte to the end
  };

  void remember(int transfer, bool collective, int id, double after) {
    const auto index = static_cast<std::size_t>(transfer);
    if (index >= carried_.size()) carried_.resize(index + 1);
    carried_[index] = {collective, id, after};
  }

  void moved(std::size_t transfer) {
    const Carried carried = carried_[transfer];
    const auto id = static_cast<std::size_t>(carried.id);
    if (carried.after > 0) {
      events_.order(now_ + carried.after, carried.collective ? EventKind::kReduced : EventKind::kDelivered, id);
    } else if (carried.collective) {
      reduced(id);
    } else {
      delivered(id);
    }
  }

  const plan::Schedule& schedule_;
  const Costs& costs_;
  const Network& network_;
  const SimOptions& options_;
  Transfers transfers_;
  const Wiring wiring_;  // transfers borrow its paths
  std::vector<Device> devices_;
  std::vector<Sent> messages_;
  std::vector<Joined> collectives_;
  std::vector<Carried> carried_;
  std::unordered_map<int, std::pair<int, ScheduleOp>> sent_by_;  // if recorded: messages by number
  EventQueue events_;
  Books books_;
  double now_ = 0;
  double last_ = 0;
};

base::Status check_input(const plan::Schedule& schedule, const Costs& costs, const Network& network,
                         const SimOptions& options) {
  const std::size_t programs = schedule.programs.size();
  if (costs.programs.size() != programs || static_cast<std::size_t>(network.devices()) != programs) {
    return base::input_error(
        fmt::format("found costs of {} devices and a network of {}, expected those of the {} of the "
                    "schedule",
                    costs.programs.size(), network.devices(), programs),
        {.field = "costs"});
  }
  bool right = costs.bucket_bytes.size() == schedule.segments.size();
  for (std::size_t i = 0; right && i < schedule.segments.size(); ++i) {
    right = costs.bucket_bytes[i].size() == static_cast<std::size_t>(schedule.segments[i].buckets);
  }
  for (std::size_t d = 0; right && d < programs; ++d) {
    std::size_t buckets = 0;
    for (const int segment : schedule.programs[d].segments) {
      buckets += static_cast<std::size_t>(schedule.segments[static_cast<std::size_t>(segment)].buckets);
    }
    right = costs.programs[d].buckets.size() == buckets;
  }
  if (!right)
    return base::input_error("expected the costs of every bucket of the schedule", {.field = "costs.buckets"});
  if (!(options.jitter >= 0 && options.jitter < 1)) {
    return base::input_error(fmt::format("found {}, expected at least 0 and less than 1", options.jitter),
                             {.field = "jitter"});
  }
  return {};
}

}  // namespace

base::Result<SimReport> simulate(const plan::Schedule& schedule, const Costs& costs, const Network& network,
                                 const SimOptions& options) {
  YOKE_CHECK(check_input(schedule, costs, network, options));
  return Run(schedule, costs, network, options).finish();
}

}  // namespace yoke::sim
