// What data lanes cost by a layer profile alone, where no step was ever measured: a worker takes the time of all
// layers, one after another, so that several at once gain nothing; gradients go around a ring, cut into buckets. With F
// and B the forward and backward seconds, L those of the last bucket's all-reduce, S of the others' and U of
// the update, as far as the profile knows it:
//
//   step = (F + B) ga + F + max(B, S) + L + U     overlap
//   step = (F + B) ga + F + B + S + L + U         sequential
#pragma once

#include <vector>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/plan/cost/batch_cost.h"
#include "yoke/profile/layer_graph.h"

namespace yoke::plan {

struct LayerModelOptions {
  int lbs = 1;               // of the profile
  std::string profiled_on;   // device type of the profile; empty: the fastest
  int optimizer_copies = 1;  // numbers the optimizer keeps per weight
};

class LayerModel final : public BatchCost {
 public:
  /// Input error when a speed or a bandwidth that is needed is not known; infeasible when the model fits no device.
  static base::Result<LayerModel> make(const cluster::Cluster& cluster, const profile::LayerGraph& graph,
                                       const LayerModelOptions& options);

  const cluster::Cluster& cluster() const override { return cluster_; }
  const std::vector<int>& node_classes() const override { return node_classes_; }
  const std::vector<int>& local_batch_sizes() const override { return local_batch_sizes_; }
  int max_vsw(int device_class, int lbs) const override;
  LaneCost lane(int device_class, int lbs, int vsw, Sync sync, Extent extent) const override;
  StepParts parts(int device_class, const LaneWork& work, Sync sync, Extent extent) const override;
  Sync recommended_sync() const override { return Sync::kOverlap; }

 private:
  struct DeviceClass {
    double forward = 0;
    double backward = 0;
    double update = 0;
    bool fits = true;
  };
  struct AllReduce {
    double early = 0;
    double last = 0;
  };
  explicit LayerModel(cluster::Cluster cluster) : cluster_(std::move(cluster)) {}
  AllReduce all_reduce(Extent extent) const;

  cluster::Cluster cluster_;
  std::vector<int> node_classes_;
  std::vector<int> local_batch_sizes_;
  std::vector<DeviceClass> classes_;
  std::vector<double> bucket_bytes_;
  double intra_bytes_per_s_ = 0;  // the slowest: a ring goes at its pace
  double inter_bytes_per_s_ = 0;
};

}  // namespace yoke::plan
