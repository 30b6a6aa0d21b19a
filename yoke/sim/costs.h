// What the ops of a schedule cost on their devices, and where those numbers come from. Plain values.
#pragma once

#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/plan/buckets.h"
#include "yoke/plan/plan.h"
#include "yoke/plan/schedule.h"
#include "yoke/profile/layer_graph.h"

namespace yoke::sim {

/// A bucket of gradients as one of its holders sees it.
struct BucketCost {
  double ready = 1;           // part of the backward pass after which it is full
  double reduce_seconds = 0;  // of the all-reduce, beside what its bytes take; the slowest holder's counts
  double update_seconds = 0;
};

/// Something sent for each worker: the seconds beside what its bytes take on the network.
struct MessageCost {
  double bytes = 0;
  double seconds = 0;
};

struct ProgramCosts {
  // Seconds of one worker; on a data lane, of one round of `round_workers` (a smaller one takes its part of that).
  int round_workers = 1;
  double load = 0;
  double forward = 0;
  double recompute = 0;
  double backward = 0;
  MessageCost activations;  // to the next stage
  MessageCost gradients;    // to the stage before
  // Memory.
  double worker_bytes = 0;  // what one worker keeps from its forward to its backward pass, its input included
  double input_bytes = 0;   // its input alone: what is kept with recompute
  double weight_bytes = 0;  // of one version
  double fixed_bytes = 0;   // gradients, state of the optimizer and the like
  /// Of its reduces, in their order: its last segment first.
  std::vector<BucketCost> buckets;
};

struct Costs {
  std::vector<ProgramCosts> programs;
  std::vector<std::vector<double>> bucket_bytes;  // by segment
};

struct CostOptions {
  int optimizer_copies = 1;          // numbers the optimizer keeps per weight: 0 plain SGD, 1 momentum, 2 Adam
  double update_bytes_per_s = 0;     // bytes of parameters that an update does in a second; 0: as the profile says
  std::string profiled_on;           // device type of the layer profile; empty: the fastest
  plan::BucketOptions buckets = {};  // how gradients are cut
};

/// A schedule with what its ops cost.
struct PricedSchedule {
  plan::Schedule schedule;
  Costs costs;
};

/// What the plan itself foresaw. Data lanes: their StepParts, whose all-reduce is two buckets, one beside the backward
/// pass and one after it. Stages: `seconds`, a third of it forward, and where there is a prediction its transfers and
/// all-reduce; no bytes, so that nothing is shared, and no memory. Input error for a plan without times, and for one
/// with both kinds of lanes (how their gradients are divided among segments is not in a plan).
base::Result<PricedSchedule> price_as_predicted(const plan::Plan& plan, plan::ScheduleRequest request = {});

/// From a layer profile of a minibatch of plan.lbs. Times of the stages' layers, updates included, by the speed of
/// their devices; bytes that cross the cuts, each tensor once; buckets cut from the parameters. Data lanes take the
/// times of the plan where it has some, else those of all layers, one worker after another. Input error when the layers
/// of the plan and of the profile are not the same (the message names one), or a device is not in the cluster.
base::Result<PricedSchedule> price_with_profile(const plan::Plan& plan, const profile::LayerGraph& graph,
                                                const cluster::Cluster& cluster, const CostOptions& options = {},
                                                plan::ScheduleRequest request = {});

/// The first device whose peak exceeds its memory, in bytes; limits of the cluster, by program. Absent: all fit.
struct MemoryExcess {
  int program = 0;
  double needed = 0;
  double limit = 0;
};
std::optional<MemoryExcess> memory_excess(const plan::Schedule& schedule, const std::vector<double>& peak_bytes,
                                          const cluster::Cluster& cluster);

}  // namespace yoke::sim
