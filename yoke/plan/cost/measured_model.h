// Costs straight from measured steps: what a step of one round took, and what a further round added. It needs no model
// of how workers share a device, so it holds also where IIDP's does not, e.g. on processors, whose kernels compete for
// cores. Between two measured numbers of workers it interpolates; beyond them it offers nothing.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/plan/cost/batch_cost.h"
#include "yoke/profile/profile.h"

namespace yoke::plan {

/// Seconds of `vsw` workers at once on one device.
struct MeasuredRound {
  int vsw = 1;
  double data = 0;  // with forward and backward: what each round takes
  double forward = 0;
  double backward = 0;
  double first = 0;   // what the first round takes beyond that: updates that nothing hides
  double update = 0;  // all updates, one after another
};

/// Of one device class: by local batch size, ascending in vsw.
using MeasuredTable = std::map<int, std::vector<MeasuredRound>>;

class MeasuredModel final : public BatchCost {
 public:
  using Reduce = std::function<ReduceTime(int device_class, Extent extent)>;

  /// `node_classes`: of each node of the cluster; `tables`: of each class, with at least one entry in all. `overlap`:
  /// which share of the early buckets a backward pass can hide.
  MeasuredModel(cluster::Cluster cluster, std::vector<int> node_classes, std::vector<MeasuredTable> tables,
                Reduce reduce, double overlap, Sync recommended);

  /// Whether every node of these has what make() needs.
  static bool can_use(const profile::ProfileSet& profiles);
  /// From profiles with `round_ms`. Nodes without profiles, and all-reduce times, are treated as by IidpModel, whose
  /// errors and warnings these are.
  static base::Result<MeasuredModel> make(cluster::Cluster cluster, const profile::ProfileSet& profiles);

  const cluster::Cluster& cluster() const override { return cluster_; }
  const std::vector<int>& node_classes() const override { return node_classes_; }
  const std::vector<int>& local_batch_sizes() const override { return local_batch_sizes_; }
  int max_vsw(int device_class, int lbs) const override;
  LaneCost lane(int device_class, int lbs, int vsw, Sync sync, Extent extent) const override;
  StepParts parts(int device_class, const LaneWork& work, Sync sync, Extent extent) const override;
  Sync recommended_sync() const override { return recommended_; }

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  MeasuredRound at(int device_class, int lbs, int vsw) const;

  cluster::Cluster cluster_;
  std::vector<int> node_classes_;
  std::vector<MeasuredTable> tables_;
  Reduce reduce_;
  double overlap_ = 1;
  Sync recommended_ = Sync::kOverlap;
  std::vector<int> local_batch_sizes_;
  std::vector<std::string> warnings_;
};

}  // namespace yoke::plan
