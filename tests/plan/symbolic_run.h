// An executor of schedules that computes with names instead of numbers, in an order drawn at random: what the weights
// become, and which weights every pass used. Written from the rules of schedule.h alone, to hold against plan::check().
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "yoke/base/rng.h"
#include "yoke/plan/schedule.h"

namespace yoke::plan {

/// Weights are named by how they came about.
using WeightName = std::uint64_t;

struct SymbolicResult {
  bool finished = false;
  bool raced = false;  // weights changed under a pass, or were not there
  /// Of each (segment, bucket), by holder.
  std::map<std::tuple<int, int, int>, WeightName> weights;
  /// (program, worker) -> the names of all buckets that its forward and backward pass used.
  std::map<std::pair<int, int>, std::vector<WeightName>> forward;
  std::map<std::pair<int, int>, std::vector<WeightName>> backward;

  bool operator==(const SymbolicResult&) const = default;
};

inline WeightName mix(WeightName a, WeightName b) {
  WeightName x = a * 0x9E3779B97F4A7C15ULL ^ (b + 0x7F4A7C15F39CC060ULL);
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9ULL;
  return x ^ (x >> 32);
}

class SymbolicRun {
 public:
  SymbolicRun(const Schedule& schedule, std::uint64_t seed)
      : schedule_(schedule), random_({.seed = seed}), devices_(schedule.programs.size()) {
    for (std::size_t p = 0; p < devices_.size(); ++p) {
      for (const int segment : schedule.programs[p].segments) {
        for (int b = 0; b < schedule.segments[static_cast<std::size_t>(segment)].buckets; ++b) {
          devices_[p].live[{segment, b}] = {0, 1};
        }
      }
    }
  }

  SymbolicResult run() {
    // Every device that can move may be the next; a pass takes two moves, so that updates fall into it.
    std::vector<std::size_t> able(devices_.size() * 2);
    for (std::size_t i = 0; i < able.size(); ++i) able[i] = i;
    while (!able.empty()) {
      const std::size_t pick = static_cast<std::size_t>(random_.below(able.size()));
      const std::size_t stream = able[pick];
      if (move(stream / 2, stream % 2 == 1)) {
        able.resize(devices_.size() * 2);
        for (std::size_t i = 0; i < able.size(); ++i) able[i] = i;
      } else {
        able.erase(able.begin() + static_cast<std::ptrdiff_t>(pick));
      }
    }
    result_.finished = true;
    for (std::size_t p = 0; p < devices_.size(); ++p) {
      const auto& ops = schedule_.programs[p].ops;
      if (devices_[p].compute < ops.size() || devices_[p].reducer < ops.size()) result_.finished = false;
      for (const auto& [bucket, held] : devices_[p].live) {
        result_.weights[{bucket.first, bucket.second, static_cast<int>(p)}] = held.second;
      }
    }
    return result_;
  }

 private:
  using BucketId = std::pair<int, int>;
  using Held = std::pair<int, WeightName>;  // version and name
  struct Device {
    std::size_t compute = 0;
    std::size_t reducer = 0;
    bool passing = false;                                // the op at `compute` has begun
    std::vector<WeightName> begun_with;                  // the weights when it did
    std::map<BucketId, Held> live;                       // in reality each has its own version while updates run
    std::map<int, std::map<BucketId, WeightName>> kept;  // stashed versions
    std::map<BucketId, std::map<int, WeightName>> sum;   // worker -> weights of its backward pass
    bool arrived = false;
  };

  static bool reducer_op(ScheduleOpKind kind) {
    return kind == ScheduleOpKind::kReduce || kind == ScheduleOpKind::kNorm || kind == ScheduleOpKind::kUpdate;
  }

  /// The weights of a version: all live, or all kept.
  std::optional<std::vector<WeightName>> weights_of(const Device& device, int version) const {
    std::vector<WeightName> names;
    const auto kept = device.kept.find(version);
    for (const auto& [bucket, held] : device.live) {
      if (kept != device.kept.end()) {
        names.push_back(kept->second.at(bucket));
      } else if (held.first == version) {
        names.push_back(held.second);
      } else {
        return std::nullopt;
      }
    }
    return names;
  }

  bool move(std::size_t p, bool reducer) {
    const auto& ops = schedule_.programs[p].ops;
    Device& device = devices_[p];
    std::size_t& at = reducer ? device.reducer : device.compute;
    while (at < ops.size() && reducer_op(ops[at].kind) != reducer) ++at;
    if (at == ops.size()) return false;
    const bool moved = reducer ? reduce(p, ops[at]) : compute(p, ops[at]);
    return moved;
  }

  bool compute(std::size_t p, const ScheduleOp& op) {
    Device& device = devices_[p];
    const int self = static_cast<int>(p);
    switch (op.kind) {
      case ScheduleOpKind::kSend:
        ++mail_[{self, op.peer, op.payload, op.worker}];
        break;
      case ScheduleOpKind::kReceive: {
        int& there = mail_[{op.peer, self, op.payload, op.worker}];
        if (there == 0) return false;
        --there;
        break;
      }
      case ScheduleOpKind::kStash:
        for (const auto& [bucket, held] : device.live) {
          if (held.first < op.version) return false;
        }
        for (const auto& [bucket, held] : device.live) {
          if (held.first != op.version) result_.raced = true;
          device.kept[op.version][bucket] = held.second;
        }
        break;
      case ScheduleOpKind::kDrop:
        if (device.kept.erase(op.version) == 0) result_.raced = true;
        break;
      case ScheduleOpKind::kForward:
      case ScheduleOpKind::kRecompute:
      case ScheduleOpKind::kBackward:
        return pass(p, op);
      default:
        break;
    }
    ++device.compute;
    return true;
  }

  bool pass(std::size_t p, const ScheduleOp& op) {
    Device& device = devices_[p];
    if (!device.passing) {
      const auto& ops = schedule_.programs[p].ops;
      for (std::size_t i = device.reducer; op.kind == ScheduleOpKind::kBackward && i < device.compute; ++i) {
        if (reducer_op(ops[i].kind)) return false;
      }
      const auto weights = weights_of(device, op.version);
      if (!weights) {
        // Newer is too late, older may still come.
        for (const auto& [bucket, held] : device.live) {
          if (held.first > op.version) result_.raced = true;
        }
        return false;
      }
      device.begun_with = *weights;
      device.passing = true;
      if (op.kind == ScheduleOpKind::kBackward) {
        std::size_t i = 0;
        for (const auto& [bucket, held] : device.live) {
          for (int w = op.worker; w < op.worker + op.count; ++w) device.sum[bucket][w] = (*weights)[i];
          ++i;
        }
      }
      return true;
    }
    // A bucket may be updated while the backward pass that filled it goes on; nothing else may change under a pass.
    if (op.kind != ScheduleOpKind::kBackward && weights_of(device, op.version) != device.begun_with)
      result_.raced = true;
    device.passing = false;
    for (int w = op.worker; w < op.worker + op.count; ++w) {
      const std::pair key{static_cast<int>(p), w};
      if (op.kind == ScheduleOpKind::kForward) result_.forward[key] = device.begun_with;
      if (op.kind == ScheduleOpKind::kBackward) result_.backward[key] = device.begun_with;
    }
    ++device.compute;
    return true;
  }

  bool reduce(std::size_t p, const ScheduleOp& op) {
    Device& device = devices_[p];
    const auto& ops = schedule_.programs[p].ops;
    const auto before = ops.begin() + static_cast<std::ptrdiff_t>(device.reducer);
    for (auto it = before; it != ops.begin();) {
      --it;
      if (it->kind != ScheduleOpKind::kBackward) continue;
      const auto index = static_cast<std::size_t>(it - ops.begin());
      const bool begun = device.compute == index && device.passing;
      const bool over = device.compute > index;
      if (!over && !(begun && schedule_.sync == Sync::kOverlap)) return false;
      break;
    }
    const BucketId bucket{op.segment, op.bucket};
    if (op.kind == ScheduleOpKind::kUpdate) {
      auto& held = device.live.at(bucket);
      if (held.first + 1 != op.version) result_.raced = true;
      held = {op.version, mix(held.second, sums_[{op.segment, op.bucket, op.version}])};
      ++device.reducer;
      return true;
    }
    const bool norm = op.kind == ScheduleOpKind::kNorm;
    const std::tuple key{norm ? -1 : op.segment, norm ? -1 : op.bucket, op.version};
    const std::size_t members =
        norm ? devices_.size() : schedule_.segments[static_cast<std::size_t>(op.segment)].holders.size();
    if (!device.arrived) {
      device.arrived = true;
      ++arrived_[key];
      if (!norm) {
        for (const auto& [worker, weights] : device.sum[bucket]) {
          sums_[key] += mix(static_cast<WeightName>(worker) + 2, weights);  // in any order
        }
        device.sum[bucket].clear();
      }
      return true;
    }
    if (arrived_[key] < members) return false;
    device.arrived = false;
    ++device.reducer;
    return true;
  }

  const Schedule& schedule_;
  base::Stream random_;
  std::vector<Device> devices_;
  std::map<std::tuple<int, int, Payload, int>, int> mail_;
  std::map<std::tuple<int, int, int>, std::size_t> arrived_;
  std::map<std::tuple<int, int, int>, WeightName> sums_;
  SymbolicResult result_;
};

}  // namespace yoke::plan
