#include "yoke/plan/schedule_run.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <unordered_map>

namespace yoke::plan {
namespace {

/// Updates of a device by the version they make.
class Versions {
 public:
  explicit Versions(const DeviceProgram& program) {
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      const ScheduleOp& op = program.ops[i];
      if (op.kind != ScheduleOpKind::kUpdate || op.version < 0) continue;
      const auto version = static_cast<std::size_t>(op.version);
      // A version beyond the number of updates is never made, and must not cost memory.
      if (version > program.ops.size()) continue;
      if (version >= last_.size()) last_.resize(version + 1, 0);
      last_[version] = i + 1;
    }
  }

  /// `done`: ops of the list before this index that the reducer stream is through with.
  bool there(int version, std::size_t done) const {
    if (version <= 0 || last_.empty()) return true;  // without updates there is nothing to wait for
    const auto index = static_cast<std::size_t>(version);
    return index < last_.size() && last_[index] > 0 && done >= last_[index];
  }

 private:
  std::vector<std::size_t> last_;  // by version: one past its last update; 0: none
};

struct Device {
  std::size_t compute = 0;  // ops before these indices are done in the stream
  std::size_t reducer = 0;
  std::size_t filled = 0;  // one past the last backward pass before `reducer`: what a reduce there waits for
  bool arrived = false;    // at the collective that the reducer stands at
  bool queued = false;
};

class Run {
 public:
  explicit Run(const Schedule& schedule) : schedule_(schedule), devices_(schedule.programs.size()) {
    versions_.reserve(devices_.size());
    for (const auto& program : schedule.programs) versions_.emplace_back(program);
  }

  std::vector<Standstill> finish() {
    for (int i = 0; i < static_cast<int>(devices_.size()); ++i) wake(i);
    while (!queue_.empty()) {
      const int program = queue_.front();
      queue_.pop_front();
      devices_[static_cast<std::size_t>(program)].queued = false;
      advance(program);
    }
    std::vector<Standstill> standing;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const auto& ops = schedule_.programs[i].ops;
      Standstill at{.program = static_cast<int>(i)};
      if (devices_[i].compute < ops.size()) at.compute = devices_[i].compute;
      if (devices_[i].reducer < ops.size()) at.reducer = devices_[i].reducer;
      if (at.compute || at.reducer) standing.push_back(at);
    }
    return standing;
  }

 private:
  void wake(int program) {
    Device& device = devices_[static_cast<std::size_t>(program)];
    if (device.queued) return;
    device.queued = true;
    queue_.push_back(program);
  }

  static std::uint64_t message(int to, const ScheduleOp& op) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(to)) << 33) |
           (static_cast<std::uint64_t>(op.payload) << 32) | static_cast<std::uint32_t>(op.worker);
  }

  void advance(int program) {
    const auto index = static_cast<std::size_t>(program);
    const auto& ops = schedule_.programs[index].ops;
    Device& device = devices_[index];
    bool moved = true;
    while (moved) {
      moved = false;
      for (; device.compute < ops.size(); ++device.compute, moved = true) {
        const ScheduleOp& op = ops[device.compute];
        if (!on_reducer(op) && !compute(program, op)) break;
      }
      for (; device.reducer < ops.size(); ++device.reducer, moved = true) {
        const ScheduleOp& op = ops[device.reducer];
        if (on_reducer(op) && !reduce(program, op)) break;
        if (op.kind == ScheduleOpKind::kBackward) device.filled = device.reducer + 1;
        device.arrived = false;
      }
    }
  }

  bool compute(int program, const ScheduleOp& op) {
    const auto index = static_cast<std::size_t>(program);
    switch (op.kind) {
      case ScheduleOpKind::kSend:
        ++sent_[message(op.peer, op)];
        wake(op.peer);
        return true;
      case ScheduleOpKind::kReceive: {
        const auto found = sent_.find(message(program, op));
        if (found == sent_.end() || found->second == 0) return false;
        --found->second;
        return true;
      }
      case ScheduleOpKind::kBackward:
        // The reducer stream passes over ops that are not its own, so it is behind only where it has some to do.
        if (devices_[index].reducer < devices_[index].compute) return false;
        return versions_[index].there(op.version, devices_[index].reducer);
      case ScheduleOpKind::kForward:
      case ScheduleOpKind::kRecompute:
      case ScheduleOpKind::kStash:
        return versions_[index].there(op.version, devices_[index].reducer);
      default:
        return true;
    }
  }

  bool reduce(int program, const ScheduleOp& op) {
    Device& device = devices_[static_cast<std::size_t>(program)];
    if (device.compute < device.filled) return false;
    if (op.kind == ScheduleOpKind::kUpdate) return true;
    const bool norm = op.kind == ScheduleOpKind::kNorm;
    const auto key = norm ? std::tuple(-1, -1, op.version) : std::tuple(op.segment, op.bucket, op.version);
    const std::size_t members =
        norm ? devices_.size() : schedule_.segments[static_cast<std::size_t>(op.segment)].holders.size();
    std::size_t& there = arrived_[key];
    if (!device.arrived) {
      device.arrived = true;
      if (++there == members) {
        if (norm) {
          for (int i = 0; i < static_cast<int>(devices_.size()); ++i) wake(i);
        } else {
          for (const int holder : schedule_.segments[static_cast<std::size_t>(op.segment)].holders) wake(holder);
        }
      }
    }
    return there >= members;
  }

  const Schedule& schedule_;
  std::vector<Device> devices_;
  std::vector<Versions> versions_;
  std::unordered_map<std::uint64_t, int> sent_;
  std::map<std::tuple<int, int, int>, std::size_t> arrived_;
  std::deque<int> queue_;
};

}  // namespace

std::vector<Standstill> run_dry(const Schedule& schedule) {
  return Run(schedule).finish();
}

}  // namespace yoke::plan
