#include "yoke/sim/wiring.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "yoke/plan/schedule_run.h"

namespace yoke::sim {
namespace {

using plan::Payload;
using plan::ScheduleOp;
using Kind = plan::ScheduleOpKind;

/// Messages are numbered by lane, cut, direction, step and worker, without gaps between the workers of a lane.
class MessageNumbers {
 public:
  explicit MessageNumbers(const plan::Schedule& schedule) : schedule_(schedule) {
    for (const auto& program : schedule.programs) note(program);
    for (Lane& lane : lanes_) {
      lane.first_message = static_cast<int>(count_);
      count_ += static_cast<std::size_t>(lane.cuts) * 2 * static_cast<std::size_t>(schedule.steps) *
                static_cast<std::size_t>(std::max(0, lane.end_worker - lane.first_worker));
    }
  }

  std::size_t count() const { return count_; }

  int of(const plan::DeviceProgram& program, const ScheduleOp& op) const {
    const Lane& lane = lanes_[static_cast<std::size_t>(program.lane)];
    const bool gradients = op.payload == Payload::kGradients;
    // Cut c lies after stage c. Gradients pass it from stage c + 1.
    const bool from_here = op.kind == Kind::kSend;
    const int cut = from_here == gradients ? program.stage - 1 : program.stage;
    const int row = (cut * 2 + (gradients ? 1 : 0)) * schedule_.steps + op.worker / schedule_.step_workers;
    return lane.first_message + row * (lane.end_worker - lane.first_worker) +
           (op.worker % schedule_.step_workers - lane.first_worker);
  }

 private:
  struct Lane {
    int first_worker = 0;  // in a step
    int end_worker = 0;
    int cuts = 0;
    int first_message = 0;
  };

  void note(const plan::DeviceProgram& program) {
    if (static_cast<std::size_t>(program.lane) >= lanes_.size()) {
      lanes_.resize(static_cast<std::size_t>(program.lane) + 1, {.first_worker = schedule_.step_workers});
    }
    Lane& lane = lanes_[static_cast<std::size_t>(program.lane)];
    lane.cuts = program.stages - 1;
    for (const ScheduleOp& op : program.ops) {
      if (op.kind != Kind::kForward) continue;
      const int in_step = op.worker % schedule_.step_workers;
      lane.first_worker = std::min(lane.first_worker, in_step);
      lane.end_worker = std::max(lane.end_worker, in_step + 1);
    }
  }

  const plan::Schedule& schedule_;
  std::vector<Lane> lanes_;
  std::size_t count_ = 0;
};

class Wirer {
 public:
  Wirer(const plan::Schedule& schedule, const Costs& costs, const Network& network)
      : schedule_(schedule), costs_(costs), network_(network), numbers_(schedule) {}

  Wiring finish() {
    for (const auto& segment : schedule_.segments) {
      first_bucket_.push_back(buckets_);
      buckets_ += segment.buckets;
      wiring_.rings.push_back(network_.ring(segment.holders));
    }
    own_bucket_.assign(static_cast<std::size_t>(buckets_), -1);
    wiring_.messages.resize(numbers_.count());
    for (std::size_t d = 0; d < schedule_.programs.size(); ++d) wire(d);
    return std::move(wiring_);
  }

 private:
  void wire(std::size_t d) {
    const auto& program = schedule_.programs[d];
    wiring_.buckets.push_back(number_buckets(program));
    auto& links = wiring_.links.emplace_back(program.ops.size());
    int backward = -1;
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      const ScheduleOp& op = program.ops[i];
      if (op.kind == Kind::kBackward) backward = static_cast<int>(i);
      links[i].backward = backward;
      if (op.kind == Kind::kSend || op.kind == Kind::kReceive) {
        wire_message(d, op, links[i]);
      } else if (plan::on_reducer(op)) {
        wire_reducer(d, op, links[i]);
      }
    }
  }

  /// Gives the buckets of a program their place in its order, the last segment first. Returns how many there are.
  int number_buckets(const plan::DeviceProgram& program) {
    int own = 0;
    for (auto segment = program.segments.rbegin(); segment != program.segments.rend(); ++segment) {
      const auto index = static_cast<std::size_t>(*segment);
      for (int b = 0; b < schedule_.segments[index].buckets; ++b) {
        own_bucket_[static_cast<std::size_t>(first_bucket_[index] + b)] = own++;
      }
    }
    return own;
  }

  void wire_message(std::size_t d, const ScheduleOp& op, OpLink& link) {
    link.id = numbers_.of(schedule_.programs[d], op);
    MessageRoute& route = wiring_.messages[static_cast<std::size_t>(link.id)];
    const auto self = static_cast<int>(d);
    route.to = op.kind == Kind::kSend ? op.peer : self;
    if (op.kind != Kind::kSend) return;
    route.from = self;
    route.path = path_between(self, op.peer);
  }

  void wire_reducer(std::size_t d, const ScheduleOp& op, OpLink& link) {
    // Of every version all buckets, and behind them the norm.
    const auto version = (op.version - 1) * (buckets_ + 1);
    if (op.kind == Kind::kNorm) {
      link.id = version + buckets_;
      (void)collective(link.id);
      return;
    }
    const auto segment = static_cast<std::size_t>(op.segment);
    const int bucket = first_bucket_[segment] + op.bucket;
    link.id = version + bucket;
    link.bucket = own_bucket_[static_cast<std::size_t>(bucket)];
    if (op.kind == Kind::kUpdate) return;
    Collective& reduce = collective(link.id);
    reduce.segment = op.segment;
    reduce.bytes = costs_.bucket_bytes[segment][static_cast<std::size_t>(op.bucket)];
    const BucketCost& cost = costs_.programs[d].buckets[static_cast<std::size_t>(link.bucket)];
    reduce.seconds = std::max(reduce.seconds, cost.reduce_seconds);
  }

  Collective& collective(int id) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= wiring_.collectives.size()) wiring_.collectives.resize(index + 1);
    return wiring_.collectives[index];
  }

  int path_between(int from, int to) {
    const std::uint64_t key = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to);
    const auto [found, added] = path_of_.try_emplace(key, static_cast<int>(wiring_.paths.size()));
    if (added) wiring_.paths.push_back(network_.between(from, to));
    return found->second;
  }

  const plan::Schedule& schedule_;
  const Costs& costs_;
  const Network& network_;
  const MessageNumbers numbers_;
  std::unordered_map<std::uint64_t, int> path_of_;
  std::vector<int> first_bucket_;  // of each segment, among all
  int buckets_ = 0;                // of all segments
  std::vector<int> own_bucket_;    // of all, in the order of the program that is wired
  Wiring wiring_;
};

}  // namespace

Wiring Wiring::make(const plan::Schedule& schedule, const Costs& costs, const Network& network) {
  return Wirer(schedule, costs, network).finish();
}

}  // namespace yoke::sim
