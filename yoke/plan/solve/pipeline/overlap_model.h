// The cost model of overlap.h as functions of one stage; shared by the dynamic program and by whoever explains a plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "yoke/plan/solve/pipeline/cut_states.h"
#include "yoke/plan/solve/pipeline/overlap.h"

namespace yoke::plan {

/// Where a stage sits, as far as its neighbours need to know.
struct StagePlace {
  int group = 0;
  bool spans_nodes = false;
  bool operator==(const StagePlace&) const = default;
};

class OverlapModel {
 public:
  /// Both are borrowed and outlive the model.
  OverlapModel(const CutStates& states, const OverlapOptions& options);

  const OverlapOptions& options() const { return options_; }
  int groups() const { return static_cast<int>(options_.groups.size()); }
  const DeviceGroup& group(int index) const { return options_.groups[static_cast<std::size_t>(index)]; }

  /// Whether q devices of the group lie on several nodes when `used` of its devices serve this and later stages.
  bool spans_nodes(int group, int used, int q) const;
  /// The slowest link between a stage and the next one, when `used_after` devices of the first one's group serve the
  /// next and later stages.
  double link(const StagePlace& from, const StagePlace& to, int used_after) const;
  bool same_node(const StagePlace& from, const StagePlace& to, int used_after) const;
  /// Between groups, or between nodes of one.
  double inter_link(int group, int other) const;

  /// The part of all minibatches that the busiest of q replicas takes.
  double share(int q) const;
  /// With more, some would have nothing to do, or more than the options allow.
  int most_replicas() const;
  /// Compute of one minibatch on one device.
  double alone_seconds(int first, int last, int group) const;
  /// What one of q devices computes for each minibatch: its share of the passes and of an update.
  double compute_seconds(int first, int last, int group, int q) const;
  double all_reduce_seconds(int first, int last, const StagePlace& place, int q) const;
  /// Between two updates of q replicas.
  int minibatches_per_update(int q) const {
    return options_.schedule == PipelineSchedule::kStash ? q : options_.micro_batches;
  }
  /// Of one minibatch on one side of a stage: `bytes` activations one way, their gradients the other.
  static double transfer_seconds(double bytes, double bytes_per_s) { return 2 * bytes / bytes_per_s; }
  /// What a stage of `seconds` per minibatch adds to a step after the first minibatch has passed it: its other rounds.
  double extra_seconds(double seconds, double alone, double transfers) const {
    return std::max(0.0, seconds * options_.micro_batches - std::max(alone, transfers));
  }
  double bytes_in(int first) const;
  double bytes_out(int last) const { return states_.crossing_bytes[static_cast<std::size_t>(last)]; }

  /// `devices`: in this and the later stages.
  int in_flight(int q, int devices) const;
  double memory_bytes(int first, int last, int q, int devices) const;
  /// What the segment takes on all its devices together, however it is divided into stages; at least `devices` are in
  /// each of these and the later stages.
  double least_bytes(int first, int last, int devices) const;
  bool fits(int first, int last, int group, int q, int devices) const;

 private:
  const CutStates& states_;
  const OverlapOptions& options_;
};

}  // namespace yoke::plan
