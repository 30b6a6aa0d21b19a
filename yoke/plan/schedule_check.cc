// The proof of a schedule: rules of order on each list, sends against receives, and a run without time.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "yoke/plan/schedule.h"
#include "yoke/plan/schedule_run.h"

namespace yoke::plan {
namespace {

using Kind = ScheduleOpKind;

/// What a device has done with a worker so far.
struct Progress {
  bool input = false;  // loaded or received
  bool forward = false;
  bool sent = false;
  bool gradient = false;  // received
  bool recomputed = false;
  bool backward = false;
  bool returned = false;  // its gradient was sent on
  int version = 0;
};

bool is_pass(const ScheduleOp& op) {
  return op.kind == Kind::kForward || op.kind == Kind::kRecompute || op.kind == Kind::kBackward;
}

/// The stages of a lane and who passed them.
struct LaneView {
  std::vector<std::vector<int>> workers;  // by stage, sorted at the end
  std::map<int, int> entry_version;       // of each worker, at stage 0
  int entry_replicas = 1;
};

/// Walks one list.
class Walk {
 public:
  Walk(const Schedule& schedule, int index)
      : schedule_(schedule),
        program_(schedule.programs[static_cast<std::size_t>(index)]),
        at_once_(schedule.sync == Sync::kOverlap && !schedule.clip_norm) {
    for (auto segment = program_.segments.rbegin(); segment != program_.segments.rend(); ++segment) {
      const int buckets = schedule.segments[static_cast<std::size_t>(*segment)].buckets;
      for (int bucket = 0; bucket < buckets; ++bucket) buckets_.emplace_back(*segment, bucket);
    }
  }

  base::Result<ProgramFacts> go(const LaneView& lane) {
    for (at_ = 0; at_ < program_.ops.size(); ++at_) {
      const ScheduleOp& op = program_.ops[at_];
      YOKE_CHECK(step(op, lane));
      note();
    }
    at_ = program_.ops.size();
    YOKE_CHECK(end());
    return facts_;
  }

  const std::map<int, Progress>& workers() const { return progress_; }

 private:
  base::Error breach(const std::string& message) const {
    const std::string op =
        at_ < program_.ops.size() ? describe(program_.ops[at_], schedule_) : std::string("the end of the list");
    return {base::ErrorKind::kInternal,
            fmt::format("schedule of {}, op {} ({}): {}", program_.device.to_string(), at_, op, message)};
  }

  base::Status step(const ScheduleOp& op, const LaneView& lane) {
    switch (op.kind) {
      case Kind::kLoad:
        if (!program_.first_stage()) return breach("only the first stage loads");
        return take_input(op);
      case Kind::kReceive:
        return receive(op);
      case Kind::kSend:
        return send(op);
      case Kind::kForward:
        return forward(op, lane);
      case Kind::kRecompute:
      case Kind::kBackward:
        return backward(op);
      case Kind::kReduce:
      case Kind::kNorm:
      case Kind::kUpdate:
        return update(op);
      case Kind::kStash:
        return stash(op);
      case Kind::kDrop:
        return drop(op);
    }
    return breach("unknown kind of op");
  }

  base::Status count(const ScheduleOp& op) const {
    if (op.worker < 0 || op.count < 1 || op.worker > schedule_.workers - op.count) return breach("no such worker");
    if (op.count > 1 && program_.kind != ScheduleKind::kData) return breach("stages take one worker at a time");
    return {};
  }

  base::Status take_input(const ScheduleOp& op) {
    YOKE_CHECK(count(op));
    for (int worker = op.worker; worker < op.worker + op.count; ++worker) {
      auto& progress = progress_[worker];
      if (progress.input) return breach("a second time");
      progress.input = true;
    }
    return {};
  }

  /// The device on the other side must be of the neighbouring stage.
  base::Status neighbour(const ScheduleOp& op, int stage) const {
    if (op.peer < 0 || op.peer >= static_cast<int>(schedule_.programs.size())) return breach("no such device");
    const auto& peer = schedule_.programs[static_cast<std::size_t>(op.peer)];
    if (peer.lane != program_.lane || peer.stage != stage)
      return breach("the other side is not the neighbouring stage");
    return {};
  }

  base::Status receive(const ScheduleOp& op) {
    const bool activations = op.payload == Payload::kActivations;
    YOKE_CHECK(neighbour(op, program_.stage + (activations ? -1 : 1)));
    if (activations) return take_input(op);
    YOKE_CHECK(count(op));
    auto& progress = progress_[op.worker];
    if (progress.gradient) return breach("a second time");
    progress.gradient = true;
    return {};
  }

  base::Status send(const ScheduleOp& op) {
    const bool activations = op.payload == Payload::kActivations;
    YOKE_CHECK(neighbour(op, program_.stage + (activations ? 1 : -1)));
    YOKE_CHECK(count(op));
    auto& progress = progress_[op.worker];
    bool& sent = activations ? progress.sent : progress.returned;
    if (sent) return breach("a second time");
    if (!(activations ? progress.forward : progress.backward)) return breach("there is nothing to send yet");
    sent = true;
    return {};
  }

  int step_of(int worker) const { return worker / schedule_.step_workers; }

  /// The round of updates that the worker's gradient goes into.
  int round_of(int worker) const {
    return program_.kind == ScheduleKind::kStash ? worker / program_.replicas : step_of(worker);
  }

  int rounds() const {
    if (schedule_.forward_only) return 0;
    return program_.kind == ScheduleKind::kStash ? (schedule_.workers + program_.replicas - 1) / program_.replicas
                                                 : schedule_.steps;
  }

  base::Status promised_version(const ScheduleOp& op, int worker, const LaneView& lane) const {
    if (schedule_.forward_only) return op.version == 0 ? base::Status() : breach("expected version 0");
    int promised = 0;
    switch (program_.kind) {
      case ScheduleKind::kData:
      case ScheduleKind::kGpipe:
      case ScheduleKind::kFlush:
        promised = step_of(worker);
        break;
      case ScheduleKind::kTwoBw:
        promised = std::max(0, step_of(worker) - 1);
        break;
      case ScheduleKind::kStash:
        if (program_.vertical_sync && program_.stage > 0) {
          const auto entry = lane.entry_version.find(worker);
          if (entry == lane.entry_version.end()) return breach("the worker never entered stage 0");
          promised =
              static_cast<int>(static_cast<std::int64_t>(entry->second) * lane.entry_replicas / program_.replicas);
        } else if (buckets_.empty()) {
          promised = op.version;  // nothing is ever updated: all versions are one
        } else {
          promised = live_;
        }
        break;
    }
    if (op.version != promised) return breach(fmt::format("expected version {}", promised));
    return {};
  }

  /// Weights that were replaced before this pass must have been stashed.
  base::Status held(const ScheduleOp& op) const {
    if (op.version < 0) return breach("no such version");
    if (!buckets_.empty() && op.version < live_ && !stashed_.contains(op.version))
      return breach("these weights are gone: not stashed");
    return {};
  }

  base::Status forward(const ScheduleOp& op, const LaneView& lane) {
    YOKE_CHECK(count(op));
    YOKE_CHECK(held(op));
    for (int worker = op.worker; worker < op.worker + op.count; ++worker) {
      auto& progress = progress_[worker];
      if (progress.forward) return breach("a second time");
      if (!progress.input) return breach("its input is not there yet");
      YOKE_CHECK(promised_version(op, worker, lane));
      progress.forward = true;
      progress.version = op.version;
    }
    in_flight_ += op.count;
    since_backward_ = op.version;
    return {};
  }

  base::Status backward(const ScheduleOp& op) {
    if (schedule_.forward_only) return breach("nothing but forward passes was asked for");
    YOKE_CHECK(count(op));
    YOKE_CHECK(held(op));
    const bool again = op.kind == Kind::kRecompute;
    if (again && !program_.recompute) return breach("the lane does not recompute");
    if (!again && reducing()) return breach("between the reduces and updates of a round");
    for (int worker = op.worker; worker < op.worker + op.count; ++worker) {
      auto& progress = progress_[worker];
      if (!progress.forward) return breach("before its forward pass");
      if (op.version != progress.version) return breach(fmt::format("its forward used version {}", progress.version));
      if (again ? progress.recomputed : progress.backward) return breach("a second time");
      if (again) {
        progress.recomputed = true;
        continue;
      }
      if (program_.recompute && !progress.recomputed) return breach("it was not recomputed");
      if (!program_.last_stage() && !progress.gradient) return breach("its gradient is not there yet");
      if (!buckets_.empty() && round_of(worker) != live_) {
        return breach(fmt::format("it belongs to the update to version {}, not {}", round_of(worker) + 1, live_ + 1));
      }
      progress.backward = true;
      facts_.lag = std::max(facts_.lag, round_of(worker) - op.version);
    }
    if (again) return {};
    in_flight_ -= op.count;
    last_backward_ = at_;
    since_backward_.reset();
    return {};
  }

  bool reducing() const { return reduced_ > 0; }

  base::Status begin_round() {
    // From here on the live weights may change at any time after the last backward pass.
    const auto stashed = stashed_.find(live_);
    if (stashed != stashed_.end() && stashed->second > last_backward_.value_or(0)) {
      return breach(
          fmt::format("version {} is stashed after the last backward pass: it may be replaced before", live_));
    }
    if (since_backward_ == live_ && stashed == stashed_.end()) {
      return breach(fmt::format("a forward pass with version {} may still run while it is replaced", live_));
    }
    return {};
  }

  base::Status update(const ScheduleOp& op) {
    if (schedule_.forward_only) return breach("nothing but forward passes was asked for");
    if (op.version != live_ + 1) return breach(fmt::format("expected version {}", live_ + 1));
    if (op.kind == Kind::kNorm) {
      if (!schedule_.clip_norm) return breach("clipping was not asked for");
      if (normed_ || reduced_ < buckets_.size()) return breach("not all gradients are reduced, or a second time");
      normed_ = true;
      return finish_round();
    }
    const std::pair bucket{op.segment, op.bucket};
    if (op.kind == Kind::kReduce) {
      if (reduced_ == buckets_.size() || buckets_[reduced_] != bucket) return breach("out of order");
      if (reduced_ == 0) YOKE_CHECK(begin_round());
      ++reduced_;
      return {};
    }
    const auto found = std::find(buckets_.begin(), buckets_.end(), bucket);
    if (found == buckets_.end()) return breach("the device does not hold it");
    if (static_cast<std::size_t>(found - buckets_.begin()) >= reduced_) return breach("it is not reduced yet");
    if (!at_once_ && reduced_ < buckets_.size()) return breach("not all buckets are reduced yet");
    if (schedule_.clip_norm && !normed_) return breach("the norm is not known yet");
    if (!updated_.insert(bucket).second) return breach("a second time");
    return finish_round();
  }

  base::Status finish_round() {
    if (updated_.size() < buckets_.size() || (schedule_.clip_norm && !normed_)) return {};
    updated_.clear();
    reduced_ = 0;
    normed_ = false;
    ++live_;
    return {};
  }

  base::Status stash(const ScheduleOp& op) {
    if (op.version != live_ || reducing()) return breach(fmt::format("the weights here are version {}", live_));
    if (!stashed_.emplace(op.version, at_).second) return breach("a second time");
    // Needed later, after the update that replaces it, or it would be kept for nothing.
    bool replaced = false;
    for (std::size_t i = at_ + 1; i < program_.ops.size(); ++i) {
      const ScheduleOp& later = program_.ops[i];
      replaced = replaced || (later.kind == Kind::kReduce && later.version == op.version + 1);
      if (replaced && is_pass(later) && later.version == op.version) return {};
    }
    return breach("no later pass needs it");
  }

  base::Status drop(const ScheduleOp& op) {
    if (stashed_.erase(op.version) == 0) return breach("it is not stashed");
    if (op.version == live_) return breach("it is not replaced yet");
    return {};
  }

  void note() {
    facts_.peak_in_flight = std::max(facts_.peak_in_flight, in_flight_);
    const int held = static_cast<int>(stashed_.size()) + (stashed_.contains(live_) ? 0 : 1);
    facts_.peak_versions = std::max(facts_.peak_versions, held);
  }

  base::Status end() {
    if (reducing() || normed_ || (!buckets_.empty() && live_ != rounds())) {
      return breach(fmt::format("{} rounds of updates, expected {}", live_, rounds()));
    }
    if (!stashed_.empty()) return breach(fmt::format("version {} is never dropped", stashed_.begin()->first));
    for (const auto& [worker, progress] : progress_) {
      const bool training = !schedule_.forward_only;
      const bool through = progress.input && progress.forward && progress.backward == training &&
                           progress.sent == !program_.last_stage() &&
                           progress.returned == (training && !program_.first_stage());
      if (!through) return breach(fmt::format("worker {} does not pass in full", worker));
    }
    return {};
  }

  const Schedule& schedule_;
  const DeviceProgram& program_;
  const bool at_once_;
  std::vector<std::pair<int, int>> buckets_;  // segment and bucket, in backward order
  std::size_t at_ = 0;
  std::map<int, Progress> progress_;
  int in_flight_ = 0;
  int live_ = 0;                           // rounds of updates that are complete
  std::size_t reduced_ = 0;                // of the round that is under way
  std::set<std::pair<int, int>> updated_;  // of the round that is under way
  bool normed_ = false;                    // in the round that is under way
  std::map<int, std::size_t> stashed_;     // version, and the op that stashed it
  std::optional<std::size_t> last_backward_;
  std::optional<int> since_backward_;  // the version of the newest forward pass after the last backward pass
  ProgramFacts facts_;
};

base::Error fault(const std::string& message) {
  return {base::ErrorKind::kInternal, "schedule: " + message};
}

/// Every index is in range, and holders and programs agree.
base::Status check_shape(const Schedule& schedule) {
  const int programs = static_cast<int>(schedule.programs.size());
  const int segments = static_cast<int>(schedule.segments.size());
  if (programs == 0 || schedule.workers < 1 || schedule.step_workers < 1 || schedule.steps < 1 ||
      (schedule.workers - 1) / schedule.step_workers + 1 != schedule.steps) {
    return fault("no devices, or workers that do not make its steps");
  }
  std::size_t held = 0;
  for (int s = 0; s < segments; ++s) {
    const Segment& segment = schedule.segments[static_cast<std::size_t>(s)];
    held += segment.holders.size();
    for (const int holder : segment.holders) {
      if (holder < 0 || holder >= programs) return fault(fmt::format("segment {} is held by nobody known", s));
      const auto& own = schedule.programs[static_cast<std::size_t>(holder)].segments;
      if (!std::binary_search(own.begin(), own.end(), s)) {
        return fault(fmt::format("{} does not know that it holds segment {}",
                                 schedule.programs[static_cast<std::size_t>(holder)].device.to_string(), s));
      }
    }
    if (!std::is_sorted(segment.holders.begin(), segment.holders.end())) return fault("holders out of order");
  }
  for (const auto& program : schedule.programs) {
    held -= program.segments.size();
    if (!std::is_sorted(program.segments.begin(), program.segments.end())) return fault("segments out of order");
    for (const int segment : program.segments) {
      if (segment < 0 || segment >= segments) return fault("no such segment");
    }
  }
  if (held != 0) return fault("devices and segments disagree on who holds what");
  return {};
}

/// Every send has its receive and the other way round.
base::Status check_messages(const Schedule& schedule) {
  using Message = std::tuple<int, int, Payload, int>;  // from, to, what, worker
  std::vector<Message> sent;
  std::vector<Message> received;
  for (std::size_t p = 0; p < schedule.programs.size(); ++p) {
    const int self = static_cast<int>(p);
    for (const ScheduleOp& op : schedule.programs[p].ops) {
      if (op.kind == Kind::kSend) sent.emplace_back(self, op.peer, op.payload, op.worker);
      if (op.kind == Kind::kReceive) received.emplace_back(op.peer, self, op.payload, op.worker);
    }
  }
  std::sort(sent.begin(), sent.end());
  std::sort(received.begin(), received.end());
  if (sent == received) return {};
  const auto [s, r] = std::mismatch(sent.begin(), sent.end(), received.begin(), received.end());
  const bool lone_send = r == received.end() || (s != sent.end() && *s < *r);
  const auto& [from, to, payload, worker] = lone_send ? *s : *r;
  return fault(fmt::format("the {} of worker {} from {} to {} are {}",
                           payload == Payload::kActivations ? "activations" : "gradients", worker,
                           schedule.programs[static_cast<std::size_t>(from)].device.to_string(),
                           schedule.programs[static_cast<std::size_t>(to)].device.to_string(),
                           lone_send ? "sent but not received" : "received but not sent"));
}

/// Each worker is in one lane and passes every stage of it once.
base::Status check_coverage(const Schedule& schedule, std::map<int, LaneView>& lanes) {
  std::vector<int> all;
  for (auto& [number, lane] : lanes) {
    for (auto& workers : lane.workers) {
      std::sort(workers.begin(), workers.end());
      if (workers != lane.workers.front()) {
        return fault(fmt::format("the stages of lane {} do not pass the same workers once each", number));
      }
    }
    all.insert(all.end(), lane.workers.front().begin(), lane.workers.front().end());
  }
  std::sort(all.begin(), all.end());
  for (int worker = 0; worker < schedule.workers; ++worker) {
    if (static_cast<std::size_t>(worker) >= all.size() || all[static_cast<std::size_t>(worker)] != worker) {
      return fault(fmt::format("worker {} is run by nobody, or by several lanes", worker));
    }
  }
  if (all.size() != static_cast<std::size_t>(schedule.workers)) return fault("more workers than the span has");
  return {};
}

}  // namespace

base::Result<std::vector<ProgramFacts>> check(const Schedule& schedule) {
  YOKE_CHECK(check_shape(schedule));
  std::vector<ProgramFacts> facts;
  std::map<int, LaneView> lanes;
  for (std::size_t p = 0; p < schedule.programs.size(); ++p) {
    const DeviceProgram& program = schedule.programs[p];
    if (program.stage < 0 || program.stage >= program.stages || program.replicas < 1) return fault("no such stage");
    LaneView& lane = lanes[program.lane];
    lane.workers.resize(static_cast<std::size_t>(program.stages));
    Walk walk(schedule, static_cast<int>(p));
    YOKE_TRY(const ProgramFacts own, walk.go(lane));
    facts.push_back(own);
    if (program.stage == 0) lane.entry_replicas = program.replicas;
    for (const auto& [worker, progress] : walk.workers()) {
      lane.workers[static_cast<std::size_t>(program.stage)].push_back(worker);
      if (program.stage == 0) lane.entry_version.emplace(worker, progress.version);
    }
  }
  YOKE_CHECK(check_coverage(schedule, lanes));
  YOKE_CHECK(check_messages(schedule));
  const auto standing = run_dry(schedule);
  if (standing.empty()) return facts;
  const Standstill& first = standing.front();
  const DeviceProgram& program = schedule.programs[static_cast<std::size_t>(first.program)];
  const std::size_t op = first.compute ? *first.compute : *first.reducer;
  return fault(fmt::format("{} devices stand still for ever; {} at op {} ({})", standing.size(),
                           program.device.to_string(), op, describe(program.ops[op], schedule)));
}

}  // namespace yoke::plan
