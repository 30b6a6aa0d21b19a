// IIDP's throughput model over measured profiles: per device class the curves of iidp_curve.h, and an all-reduce whose
// time is a fitted line over its ideal time. With S the time of all gradient buckets but the last, and L of the last:
//
//   step = data + bn_sync * vsw + (data + forward + backward) * ga + forward + max(backward, S) + L + tail * share
//   tail = update + copy * (vsw - 1);  share = 1 (sequential), the last bucket's share of all bytes (overlap)
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/plan/cost/batch_cost.h"
#include "yoke/plan/cost/iidp_curve.h"
#include "yoke/profile/profile.h"

namespace yoke::plan {

/// IIDP's rule: sequential when the buckets before the last are on average (in whole MiB) over 1.5 times the 25 MiB
/// that gradients are usually bucketed by, else overlap. A single bucket costs the same both ways: overlap.
Sync recommend_sync(const profile::BucketProfile& buckets);
/// Why, in half a sentence for people: "overlap, because ...".
std::string explain_sync(const profile::BucketProfile& buckets);

class IidpModel final : public BatchCost {
 public:
  /// A node without a profile of its own takes that of the first profiled node of the same type and speed. Input error
  /// when a node is not covered at all, or when a bandwidth or an all-reduce measurement is missing.
  static base::Result<IidpModel> make(cluster::Cluster cluster, const profile::ProfileSet& profiles);

  const cluster::Cluster& cluster() const override { return cluster_; }
  const std::vector<int>& node_classes() const override { return node_classes_; }
  const std::vector<int>& local_batch_sizes() const override { return local_batch_sizes_; }
  int max_vsw(int device_class, int lbs) const override;
  LaneCost lane(int device_class, int lbs, int vsw, Sync sync, Extent extent) const override;
  StepParts parts(int device_class, const LaneWork& work, Sync sync, Extent extent) const override;
  Sync recommended_sync() const override { return recommended_sync_; }

  /// Where the cluster file and the profile contradict each other, or a measurement cannot be right: one line each, for
  /// people. The profile is what counts: it was measured.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// nullptr when the class cannot run this local batch size.
  const IidpCurve* curve(int device_class, int lbs) const;
  /// Whose profile the class has.
  const std::string& profiled_node(int device_class) const {
    return classes_.at(static_cast<std::size_t>(device_class)).profiled_node;
  }
  ReduceTime all_reduce(int device_class, Extent extent) const;

 private:
  struct DeviceClass {
    std::string type;
    std::string profiled_node;
    double intra_bytes_per_s = 0;  // 0: not known, and checked to be never needed
    double inter_bytes_per_s = 0;
    std::map<int, IidpCurve> curves;  // by local batch size
  };
  explicit IidpModel(cluster::Cluster cluster) : cluster_(std::move(cluster)) {}
  base::Status classify(const profile::ProfileSet& profiles);
  void look_for_contradictions(const profile::ProfileSet& profiles);
  double exposed_update_share(Sync sync) const;

  cluster::Cluster cluster_;
  std::vector<int> node_classes_;
  std::vector<DeviceClass> classes_;
  std::vector<int> local_batch_sizes_;
  std::vector<double> bucket_mebibytes_;
  double last_bucket_share_ = 1;
  std::optional<Line> intra_;  // ms over ideal ms
  std::optional<Line> inter_;
  Sync recommended_sync_ = Sync::kOverlap;
  std::vector<std::string> warnings_;
};

}  // namespace yoke::plan
