// What a step of a data lane costs: the only thing the batch solver knows about a model and its machines. A cost model
// belongs to one cluster, whose nodes it sorts into device classes: devices of one class cost the same in every plan.
// Implementations are immutable after construction; all const members are safe from any thread.
#pragma once

#include <compare>
#include <string_view>
#include <vector>

#include "yoke/cluster/cluster.h"

namespace yoke::plan {

/// When the weights are updated: each gradient bucket as soon as it is reduced, or all at the end of the step.
enum class Sync { kOverlap, kSequential };
/// `overlap` or `sequential`, as files and the command line write it.
std::string_view to_string(Sync sync);

/// The part of the cluster that takes part in a step; the all-reduce depends on nothing else.
struct Extent {
  int devices = 1;
  bool across_nodes = false;

  auto operator<=>(const Extent&) const = default;
};

/// What one device does in a step: `vsw` workers of `lbs` samples at a time, `ga` + 1 rounds of them.
struct LaneWork {
  int lbs = 1;
  int vsw = 1;
  int ga = 0;

  int workers() const { return vsw * (ga + 1); }
  bool operator==(const LaneWork&) const = default;
};

/// Seconds of a step of `vsw` workers: each round computes, and the first also carries the all-reduce and the update.
/// So a lane's time is affine, and never falls, in its rounds; and 0 <= further_round <= first_round.
struct LaneCost {
  double first_round = 0;
  double further_round = 0;

  double seconds(int ga) const { return first_round + ga * further_round; }
};

/// Where the seconds of one lane's step go. `hidden` parts run beside others and are not in the total.
struct StepParts {
  double data = 0;
  double forward = 0;
  double backward = 0;
  double bn_sync = 0;
  double all_reduce_exposed = 0;
  double update = 0;  // optimizer step and weight copies that nothing hides
  double all_reduce_hidden = 0;
  double update_hidden = 0;

  double total() const { return data + forward + backward + bn_sync + all_reduce_exposed + update; }
  bool operator==(const StepParts&) const = default;
};

/// Seconds of reducing all gradients over an extent.
struct ReduceTime {
  double early = 0;  // buckets that the backward pass fills before its end
  double last = 0;   // the bucket that is full only then
};

class BatchCost {
 public:
  virtual ~BatchCost() = default;

  virtual const cluster::Cluster& cluster() const = 0;
  /// The device class of every node, by its position in cluster().nodes(). Classes count from 0 in order of appearance.
  virtual const std::vector<int>& node_classes() const = 0;
  /// Local batch sizes that at least one class can run, ascending.
  virtual const std::vector<int>& local_batch_sizes() const = 0;
  /// The most workers that run at once on a device of the class; 0: the class cannot run this local batch size.
  virtual int max_vsw(int device_class, int lbs) const = 0;
  /// 1 <= vsw <= max_vsw. Finite; the first round takes more than no time; what a further round takes does not depend
  /// on the extent.
  virtual LaneCost lane(int device_class, int lbs, int vsw, Sync sync, Extent extent) const = 0;
  /// The same seconds, by what they are spent on.
  virtual StepParts parts(int device_class, const LaneWork& work, Sync sync, Extent extent) const = 0;
  /// The sync method this model of ours should use when the user has no opinion.
  virtual Sync recommended_sync() const = 0;

  double step_seconds(int device_class, const LaneWork& work, Sync sync, Extent extent) const {
    return lane(device_class, work.lbs, work.vsw, sync, extent).seconds(work.ga);
  }
};

}  // namespace yoke::plan
