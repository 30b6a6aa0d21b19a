#include "yoke/sim/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>
#include <unordered_map>

#include "yoke/base/rng.h"

namespace yoke::sim {
namespace {

using plan::Payload;
using plan::ScheduleOp;
using Kind = plan::ScheduleOpKind;

bool on_reducer(Kind kind) {
  return kind == Kind::kReduce || kind == Kind::kNorm || kind == Kind::kUpdate;
}

enum class EventKind : std::uint8_t {
  kComputed,   // an op of the compute stream of device `a` is over
  kUpdated,    // an update of the reducer stream of device `a` is over
  kLook,       // something that device `a` waits for may be there
  kMoved,      // transfer `a` may have moved its bytes; its turn is `b`
  kDelivered,  // message `a` is there
  kReduced,    // collective `a` is over
};

struct Event {
  double at = 0;
  std::uint64_t number = 0;  // of equal times, the first announced comes first
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  EventKind kind = EventKind::kLook;

  bool operator>(const Event& other) const { return at != other.at ? at > other.at : number > other.number; }
};

/// What an op refers to, found out once.
struct Link {
  int id = -1;        // message or collective; of an update, the bucket in the device's order
  int backward = -1;  // of a reduce or norm: the last backward pass before it in the list
  int bucket = -1;    // of a reduce: in the device's order
};

struct Message {
  double sent = std::numeric_limits<double>::infinity();
  double bytes = 0;
  bool there = false;
  int from = -1;
  int to = -1;
  int path = -1;
  double computed_from = 0;  // Device::computed at both ends when it was sent
  double computed_to = 0;
};

struct Collective {
  int segment = -1;  // -1: a norm, of all devices
  int arrived = 0;
  double bytes = 0;
  double seconds = 0;  // beside its bytes
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
  int updates_of_version = 0;
  // The newest backward pass that was begun.
  int backward = -1;
  double backward_begin = 0;
  double backward_seconds = 0;
  // Waiting of the compute stream.
  bool waiting = false;
  double waiting_since = 0;
  double reduce_before = 0;  // seconds in all-reduces and updates when it began to wait
  double update_before = 0;
  double op_begin = 0;
  double update_begin = 0;
  double reduced = 0;  // seconds in all-reduces, up to the last that is over
  double reducing_since = -1;
  double updated = 0;
  // Passes give way to what else a processor has to do: moving bytes, updates.
  double computed = 0;         // seconds in passes, up to the last that is over
  double computed_before = 0;  // when the collective or update of the reducer stream began
  double owed = 0;             // seconds by which the pass that is under way, or the next, is longer
  double bytes = 0;
};

class Run {
 public:
  Run(const plan::Schedule& schedule, const Costs& costs, const Network& network, const SimOptions& options)
      : schedule_(schedule),
        costs_(costs),
        network_(network),
        options_(options),
        transfers_(network),
        devices_(schedule.programs.size()),
        links_(schedule.programs.size()) {
    report_.devices.resize(devices_.size());
    report_.step_ends.assign(static_cast<std::size_t>(schedule.steps), 0.0);
    link();
  }

  base::Result<SimReport> finish() {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const ProgramCosts& cost = costs_.programs[d];
      hold(d, 0, cost.fixed_bytes + cost.weight_bytes);
    }
    for (std::size_t d = 0; d < devices_.size(); ++d) advance(d);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      happen(event);
    }
    report_.seconds = last_;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      Device& device = devices_[d];
      const auto& ops = schedule_.programs[d].ops;
      if (device.compute < ops.size() || device.reducer < ops.size()) {
        const std::size_t op = std::min(device.compute, device.reducer);
        return base::Error{
            base::ErrorKind::kInternal,
            fmt::format("simulation: {} stands still at op {} ({}) after {} s",
                        schedule_.programs[d].device.to_string(), op, plan::describe(ops[op], schedule_), now_)};
      }
      close(d);
    }
    return std::move(report_);
  }

 private:
  using Track = Span::Track;

  int path_between(int from, int to) {
    const std::uint64_t key = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to);
    const auto [found, added] = path_of_.try_emplace(key, static_cast<int>(paths_.size()));
    if (added) paths_.push_back(network_.between(from, to));
    return found->second;
  }

  /// Messages are numbered by lane, cut, direction, step and worker, without gaps between the workers of a lane.
  void number_lanes() {
    for (const auto& program : schedule_.programs) {
      if (static_cast<std::size_t>(program.lane) >= lanes_.size()) {
        lanes_.resize(static_cast<std::size_t>(program.lane) + 1, {.first_worker = schedule_.step_workers});
      }
      LaneNumbers& lane = lanes_[static_cast<std::size_t>(program.lane)];
      lane.cuts = program.stages - 1;
      for (const ScheduleOp& op : program.ops) {
        if (op.kind != Kind::kForward) continue;
        const int in_step = op.worker % schedule_.step_workers;
        lane.first_worker = std::min(lane.first_worker, in_step);
        lane.end_worker = std::max(lane.end_worker, in_step + 1);
      }
    }
    std::size_t messages = 0;
    for (LaneNumbers& lane : lanes_) {
      lane.first_message = static_cast<int>(messages);
      messages += static_cast<std::size_t>(lane.cuts) * 2 * static_cast<std::size_t>(schedule_.steps) *
                  static_cast<std::size_t>(std::max(0, lane.end_worker - lane.first_worker));
    }
    messages_.resize(messages);
  }

  int message_number(const plan::DeviceProgram& program, const ScheduleOp& op) const {
    const LaneNumbers& lane = lanes_[static_cast<std::size_t>(program.lane)];
    const bool gradients = op.payload == Payload::kGradients;
    // Cut c lies after stage c. Gradients pass it from stage c + 1.
    const bool from_here = op.kind == Kind::kSend;
    const int cut = from_here == gradients ? program.stage - 1 : program.stage;
    const int row = (cut * 2 + (gradients ? 1 : 0)) * schedule_.steps + op.worker / schedule_.step_workers;
    return lane.first_message + row * (lane.end_worker - lane.first_worker) +
           (op.worker % schedule_.step_workers - lane.first_worker);
  }

  /// Numbers messages and collectives.
  void link() {
    std::vector<int> first_bucket;  // of each segment, among all
    int buckets = 0;
    for (const auto& segment : schedule_.segments) {
      first_bucket.push_back(buckets);
      buckets += segment.buckets;
      rings_.push_back(network_.ring(segment.holders));
    }
    number_lanes();
    std::vector<int> bucket_of(static_cast<std::size_t>(buckets), -1);
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const auto& program = schedule_.programs[d];
      auto& links = links_[d];
      links.resize(program.ops.size());
      int own = 0;
      for (auto segment = program.segments.rbegin(); segment != program.segments.rend(); ++segment) {
        const auto index = static_cast<std::size_t>(*segment);
        for (int b = 0; b < schedule_.segments[index].buckets; ++b) {
          bucket_of[static_cast<std::size_t>(first_bucket[index] + b)] = own++;
        }
      }
      devices_[d].updates_of_version = own;
      int backward = -1;
      for (std::size_t i = 0; i < program.ops.size(); ++i) {
        const ScheduleOp& op = program.ops[i];
        Link& link = links[i];
        if (op.kind == Kind::kBackward) backward = static_cast<int>(i);
        link.backward = backward;
        if (op.kind == Kind::kSend || op.kind == Kind::kReceive) {
          const bool send = op.kind == Kind::kSend;
          link.id = message_number(program, op);
          Message& message = messages_[static_cast<std::size_t>(link.id)];
          message.to = send ? op.peer : static_cast<int>(d);
          if (send) message.from = static_cast<int>(d);
          if (send) message.path = path_between(static_cast<int>(d), op.peer);
        } else if (on_reducer(op.kind)) {
          const bool norm = op.kind == Kind::kNorm;
          const int bucket = norm ? buckets : first_bucket[static_cast<std::size_t>(op.segment)] + op.bucket;
          if (!norm) link.bucket = bucket_of[static_cast<std::size_t>(bucket)];
          link.id = (op.version - 1) * (buckets + 1) + bucket;
          if (op.kind == Kind::kUpdate) continue;
          if (static_cast<std::size_t>(link.id) >= collectives_.size()) {
            collectives_.resize(static_cast<std::size_t>(link.id) + 1);
          }
          Collective& collective = collectives_[static_cast<std::size_t>(link.id)];
          if (norm) continue;
          collective.segment = op.segment;
          collective.bytes =
              costs_.bucket_bytes[static_cast<std::size_t>(op.segment)][static_cast<std::size_t>(op.bucket)];
          collective.seconds = std::max(
              collective.seconds, costs_.programs[d].buckets[static_cast<std::size_t>(link.bucket)].reduce_seconds);
        }
      }
    }
  }

  void order(double at, EventKind kind, std::size_t a, std::uint32_t b = 0) {
    events_.push({at, number_++, static_cast<std::uint32_t>(a), b, kind});
  }

  void order_looks() {
    for (const auto& look : transfers_.looks()) {
      order(look.at, EventKind::kMoved, static_cast<std::size_t>(look.transfer), look.turn);
    }
    transfers_.looks().clear();
  }

  void happen(const Event& event) {
    if (event.kind == EventKind::kMoved) {
      const bool over = transfers_.over(now_, static_cast<int>(event.a), event.b);
      order_looks();
      if (!over) return;
    }
    ++report_.events;
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
      if (on_reducer(op.kind)) {
        ++device.compute;
        continue;
      }
      if (!can_begin(d, op)) {
        if (!device.waiting) wait(d);
        return moved;
      }
      if (device.waiting) stop_waiting(d, op);
      begin(d, op);
      moved = true;
    }
    // What is left is the reducer stream's, until the end of the span.
    if (!device.computing && !device.waiting) wait(d);
    return moved;
  }

  bool version_there(const Device& device, int version) const {
    return device.updates_of_version == 0 || device.updates >= version * device.updates_of_version;
  }

  bool can_begin(std::size_t d, const ScheduleOp& op) const {
    const Device& device = devices_[d];
    switch (op.kind) {
      case Kind::kReceive:
        return messages_[static_cast<std::size_t>(links_[d][device.compute].id)].there;
      case Kind::kForward:
      case Kind::kRecompute:
      case Kind::kStash:
        return version_there(device, op.version);
      case Kind::kBackward:
        return version_there(device, op.version) && device.reducer >= device.compute;
      default:
        return true;
    }
  }

  void wait(std::size_t d) {
    Device& device = devices_[d];
    device.waiting = true;
    device.waiting_since = now_;
    device.reduce_before = reduced_by_now(device);
    device.update_before = updated_by_now(device);
  }

  double reduced_by_now(const Device& device) const {
    return device.reduced + (device.reducing_since >= 0 ? now_ - device.reducing_since : 0);
  }
  double computed_by_now(const Device& device) const {
    return device.computed + (device.computing ? now_ - device.op_begin : 0);
  }

  /// The processor of device `d` has spent `seconds` on something else since `begin`, when its passes had taken
  /// `computed`: those that ran beside it last that much longer.
  void take_from_passes(std::size_t d, double seconds, double begin, double computed) {
    if (seconds <= 0 || now_ <= begin || !network_.is_processor(static_cast<int>(d))) return;
    devices_[d].owed += seconds * (computed_by_now(devices_[d]) - computed) / (now_ - begin);
  }

  double updated_by_now(const Device& device) const {
    return device.updated + (device.updating ? now_ - device.update_begin : 0);
  }

  void stop_waiting(std::size_t d, const ScheduleOp& op) {
    Device& device = devices_[d];
    DeviceReport& report = report_.devices[d];
    device.waiting = false;
    const double waited = now_ - device.waiting_since;
    double communication = 0;
    double update = 0;
    if (op.kind == Kind::kReceive) {
      const Message& message = messages_[static_cast<std::size_t>(links_[d][device.compute].id)];
      communication = now_ - std::max(device.waiting_since, message.sent);
    } else {
      communication = reduced_by_now(device) - device.reduce_before;
      update = updated_by_now(device) - device.update_before;
    }
    report.exposed_communication += communication;
    report.exposed_update += update;
    report.bubble += waited - communication - update;
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
        hold(d, now_, -cost.weight_bytes);
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
    if (op.kind == Kind::kForward) hold(d, now_, op.count * (cost.worker_bytes - received_bytes(d)));
    if (op.kind == Kind::kRecompute) hold(d, now_, op.count * (cost.worker_bytes - cost.input_bytes));
    if (op.kind == Kind::kBackward) {
      device.backward = static_cast<int>(device.compute);
      device.backward_begin = now_;
      device.backward_seconds = seconds;
    }
    order(now_ + seconds, EventKind::kComputed, d);
  }

  /// Of a worker's input, what is held from its arrival.
  double received_bytes(std::size_t d) const {
    return schedule_.programs[d].first_stage() ? 0 : costs_.programs[d].input_bytes;
  }

  void send(std::size_t d, const ScheduleOp& op) {
    const auto id = static_cast<std::size_t>(links_[d][devices_[d].compute].id);
    Message& message = messages_[id];
    const MessageCost& cost =
        op.payload == Payload::kActivations ? costs_.programs[d].activations : costs_.programs[d].gradients;
    message.sent = now_;
    message.bytes = cost.bytes;
    message.computed_from = computed_by_now(devices_[d]);
    message.computed_to = computed_by_now(devices_[static_cast<std::size_t>(op.peer)]);
    if (options_.record) sent_by_.insert_or_assign(static_cast<int>(id), std::pair{static_cast<int>(d), op});
    const Path& path = paths_[static_cast<std::size_t>(message.path)];
    if (cost.bytes <= 0 || path.resources.empty()) {
      order(now_ + cost.seconds + path.latency, EventKind::kDelivered, id);
      return;
    }
    const int transfer = transfers_.begin(now_, cost.bytes, path);
    remember(transfer, false, static_cast<int>(id), cost.seconds + path.latency);
    order_looks();
  }

  void computed(std::size_t d) {
    Device& device = devices_[d];
    if (device.owed > 0) {
      order(now_ + device.owed, EventKind::kComputed, d);
      device.owed = 0;
      return;
    }
    const ScheduleOp& op = op_at(d, device.compute);
    const ProgramCosts& cost = costs_.programs[d];
    const auto& program = schedule_.programs[d];
    DeviceReport& report = report_.devices[d];
    const double seconds = now_ - device.op_begin;
    record(d, Track::kCompute, op, device.op_begin, now_);
    switch (op.kind) {
      case Kind::kLoad:
        report.load += seconds;
        break;
      case Kind::kForward:
        report.forward += seconds;
        if (schedule_.forward_only) {
          hold(d, now_, -op.count * cost.worker_bytes);
          step_over(op.worker + op.count - 1);
        } else if (program.recompute) {
          hold(d, now_, -op.count * (cost.worker_bytes - cost.input_bytes));
        }
        break;
      case Kind::kRecompute:
        report.recompute += seconds;
        break;
      case Kind::kBackward:
        report.backward += seconds;
        // With the gradient that came for it.
        hold(d, now_, -op.count * (cost.worker_bytes + (program.last_stage() ? 0 : cost.activations.bytes)));
        step_over(op.worker + op.count - 1);
        break;
      default:
        break;
    }
    device.computing = false;
    device.computed += seconds;
    ++device.compute;
    last_ = std::max(last_, now_);
    advance(d);
  }

  void step_over(int worker) {
    double& end = report_.step_ends[static_cast<std::size_t>(worker / schedule_.step_workers)];
    end = std::max(end, now_);
  }

  void delivered(std::size_t id) {
    Message& message = messages_[id];
    message.there = true;
    const auto d = static_cast<std::size_t>(message.to);
    const double seconds = message.bytes * paths_[static_cast<std::size_t>(message.path)].processor;
    take_from_passes(static_cast<std::size_t>(message.from), seconds, message.sent, message.computed_from);
    take_from_passes(d, seconds, message.sent, message.computed_to);
    hold(d, now_, message.bytes);
    if (options_.record) {
      const auto& [from, op] = sent_by_.at(static_cast<int>(id));
      record(static_cast<std::size_t>(from), Track::kNetwork, op, message.sent, now_);
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
      if (!on_reducer(op.kind)) {
        ++device.reducer;
        moved = true;
        continue;
      }
      const Link& link = links_[d][device.reducer];
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
  bool filled(std::size_t d, const Link& link) {
    Device& device = devices_[d];
    if (link.backward < 0 || device.compute > static_cast<std::size_t>(link.backward)) return true;
    if (device.backward != link.backward) return false;
    if (schedule_.sync == plan::Sync::kSequential) return false;
    const double part = link.bucket < 0 ? 1 : costs_.programs[d].buckets[static_cast<std::size_t>(link.bucket)].ready;
    const double ready = device.backward_begin + part * device.backward_seconds;
    if (now_ >= ready) return true;
    if (!device.look_ordered && part < 1) {
      device.look_ordered = true;
      order(ready, EventKind::kLook, d);
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

  void arrive(std::size_t d, std::size_t id) {
    Collective& collective = collectives_[id];
    devices_[d].arrived = true;
    if (static_cast<std::size_t>(++collective.arrived) < members(collective)) return;
    collective.begin = now_;
    const double count = static_cast<double>(members(collective));
    for_each_member(collective, [&](std::size_t member) {
      devices_[member].reducing_since = now_;
      devices_[member].computed_before = computed_by_now(devices_[member]);
    });
    if (collective.segment < 0) {
      order(now_ + network_.tree_latency(), EventKind::kReduced, id);
      return;
    }
    const Path& ring = rings_[static_cast<std::size_t>(collective.segment)];
    const double bytes = 2 * (count - 1) / count * collective.bytes;
    if (bytes <= 0 || ring.resources.empty()) {
      order(now_ + collective.seconds + ring.latency, EventKind::kReduced, id);
      return;
    }
    const int transfer = transfers_.begin(now_, bytes, ring);
    remember(transfer, true, static_cast<int>(id), collective.seconds + ring.latency);
    order_looks();
  }

  void reduced(std::size_t id) {
    Collective& collective = collectives_[id];
    collective.over = true;
    last_ = std::max(last_, now_);
    const double count = static_cast<double>(members(collective));
    // Each member sends and receives that much.
    const double processor = collective.segment < 0
                                 ? 0
                                 : 2 * 2 * (count - 1) / count * collective.bytes *
                                       rings_[static_cast<std::size_t>(collective.segment)].processor;
    for_each_member(collective, [&](std::size_t d) {
      Device& device = devices_[d];
      take_from_passes(d, processor, collective.begin, device.computed_before);
      device.reduced += now_ - device.reducing_since;
      device.reducing_since = -1;
      record(d, Track::kReducer, op_at(d, device.reducer), collective.begin, now_);
    });
    for_each_member(collective, [&](std::size_t d) { advance(d); });
  }

  void begin_update(std::size_t d, const ScheduleOp& op, const Link& link) {
    Device& device = devices_[d];
    device.updating = true;
    device.update_begin = now_;
    device.computed_before = computed_by_now(device);
    const bool first = device.updates % device.updates_of_version == 0;
    // A version that was stashed stays; the new one is held beside it.
    if (first && stashed(d, op.version - 1)) hold(d, now_, costs_.programs[d].weight_bytes);
    order(now_ + costs_.programs[d].buckets[static_cast<std::size_t>(link.bucket)].update_seconds, EventKind::kUpdated,
          d);
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
    device.updated += now_ - device.update_begin;
    take_from_passes(d, now_ - device.update_begin, device.update_begin, device.computed_before);
    ++device.updates;
    ++device.reducer;
    record(d, Track::kReducer, op, device.update_begin, now_);
    last_ = std::max(last_, now_);
    if (schedule_.programs[d].kind != plan::ScheduleKind::kStash) {
      double& end = report_.step_ends[static_cast<std::size_t>(op.version - 1)];
      end = std::max(end, now_);
    }
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
      order(now_ + carried.after, carried.collective ? EventKind::kReduced : EventKind::kDelivered, id);
    } else if (carried.collective) {
      reduced(id);
    } else {
      delivered(id);
    }
  }

  // Books ------------------------------------------------------------------------------------------------------------

  void hold(std::size_t d, double at, double bytes) {
    Device& device = devices_[d];
    DeviceReport& report = report_.devices[d];
    device.bytes += bytes;
    report.peak_bytes = std::max(report.peak_bytes, device.bytes);
    if (!options_.record || bytes == 0) return;
    if (!report.memory.empty() && report.memory.back().at == at) {
      report.memory.back().bytes = device.bytes;
    } else {
      report.memory.push_back({at, device.bytes});
    }
  }

  void record(std::size_t d, Track track, const ScheduleOp& op, double begin, double end) {
    if (!options_.record) return;
    report_.spans.push_back({static_cast<int>(d), track, op, begin, end});
  }

  /// The time from the last pass of a device to the end of the span.
  void close(std::size_t d) {
    const Device& device = devices_[d];
    DeviceReport& report = report_.devices[d];
    const double communication = device.reduced - device.reduce_before;
    const double update = device.updated - device.update_before;
    report.exposed_communication += communication;
    report.exposed_update += update;
    report.bubble += report_.seconds - device.waiting_since - communication - update;
  }

  const plan::Schedule& schedule_;
  const Costs& costs_;
  const Network& network_;
  const SimOptions& options_;
  Transfers transfers_;
  std::vector<Device> devices_;
  std::vector<std::vector<Link>> links_;
  struct LaneNumbers {
    int first_worker = 0;  // in a step
    int end_worker = 0;
    int cuts = 0;
    int first_message = 0;
  };
  std::vector<LaneNumbers> lanes_;
  std::vector<Message> messages_;
  std::vector<Collective> collectives_;
  std::vector<Path> rings_;  // by segment
  std::vector<Path> paths_;  // complete before the first transfer, which borrows one
  std::unordered_map<std::uint64_t, int> path_of_;
  std::vector<Carried> carried_;
  std::unordered_map<int, std::pair<int, ScheduleOp>> sent_by_;  // if recorded: messages by number
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t number_ = 0;
  double now_ = 0;
  double last_ = 0;
  SimReport report_;
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
