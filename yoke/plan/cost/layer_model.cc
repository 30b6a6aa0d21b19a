#include "yoke/plan/cost/layer_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "yoke/base/units.h"
#include "yoke/plan/buckets.h"
#include "yoke/plan/solve/pipeline/overlap_lane.h"

namespace yoke::plan {

base::Result<LayerModel> LayerModel::make(const cluster::Cluster& cluster, const profile::LayerGraph& graph,
                                          const LayerModelOptions& options) {
  LayerModel model(cluster);
  model.local_batch_sizes_ = {options.lbs};
  double forward = 0;
  double backward = 0;
  double update = 0;
  double parameter_bytes = 0;
  double output_bytes = 0;
  std::vector<Parameter> parameters;
  constexpr double kElementBytes = 4;
  for (const int index : graph.topological_order()) {
    const auto& layer = graph.layers()[static_cast<std::size_t>(index)];
    forward += layer.forward_ms / 1000;
    backward += layer.backward_ms / 1000;
    update += layer.update_ms / 1000;
    parameter_bytes += layer.parameter_bytes;
    output_bytes += layer.activation_bytes();
    parameters.push_back({layer.id, static_cast<std::int64_t>(std::min(layer.parameter_bytes / kElementBytes, 4e18))});
  }
  if (!(forward + backward > 0)) {
    return base::input_error("the layer profile has no times, expected milliseconds of each layer",
                             {.field = "profile"});
  }
  if (parameter_bytes >= kElementBytes) {
    YOKE_TRY(const auto buckets, cut_into_buckets(parameters));
    for (const auto& bucket : buckets) model.bucket_bytes_.push_back(static_cast<double>(bucket.bytes.count));
  }
  const double needed = parameter_bytes * (2 + options.optimizer_copies) + output_bytes;
  YOKE_TRY(const auto groups, node_groups(cluster, options.profiled_on));
  model.intra_bytes_per_s_ = model.inter_bytes_per_s_ = std::numeric_limits<double>::infinity();
  bool any = false;
  double largest = 0;
  for (const auto& each : groups) {
    const DeviceGroup& group = each.group;
    const bool fits = !group.memory_bytes || needed <= *group.memory_bytes;
    any = any || fits;
    largest = std::max(largest, group.memory_bytes.value_or(0));
    model.classes_.push_back({forward / group.speed, backward / group.speed, update / group.speed, fits});
    model.intra_bytes_per_s_ = std::min(model.intra_bytes_per_s_, group.intra_bytes_per_s);
    model.inter_bytes_per_s_ = std::min(model.inter_bytes_per_s_, group.inter_bytes_per_s);
  }
  if (!any) {
    return base::infeasible_error(fmt::format("memory: a worker on one device needs {}, the largest device has {}",
                                              base::format(base::Bytes{static_cast<std::int64_t>(needed)}),
                                              base::format(base::Bytes{static_cast<std::int64_t>(largest)})));
  }
  for (const auto& node : cluster.nodes()) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto& names = groups[g].nodes;
      if (std::find(names.begin(), names.end(), node.name) != names.end())
        model.node_classes_.push_back(static_cast<int>(g));
    }
  }
  return model;
}

int LayerModel::max_vsw(int device_class, int lbs) const {
  return lbs == local_batch_sizes_.front() && classes_.at(static_cast<std::size_t>(device_class)).fits ? 1 : 0;
}

LayerModel::AllReduce LayerModel::all_reduce(Extent extent) const {
  AllReduce result;
  if (extent.devices < 2) return result;
  const double bytes_per_s = extent.across_nodes ? inter_bytes_per_s_ : intra_bytes_per_s_;
  const double devices = extent.devices;
  for (const double bytes : bucket_bytes_) {
    result.early += result.last;
    result.last = 2 * (devices - 1) / devices * bytes / bytes_per_s;
  }
  return result;
}

LaneCost LayerModel::lane(int device_class, int lbs, int vsw, Sync sync, Extent extent) const {
  const StepParts first = parts(device_class, {.lbs = lbs, .vsw = vsw, .ga = 0}, sync, extent);
  return {.first_round = first.total(), .further_round = first.forward + first.backward};
}

StepParts LayerModel::parts(int device_class, const LaneWork& work, Sync sync, Extent extent) const {
  base::require(work.vsw <= max_vsw(device_class, work.lbs),
                fmt::format("class {} cannot run {} workers of {}", device_class, work.vsw, work.lbs));
  const DeviceClass& on = classes_[static_cast<std::size_t>(device_class)];
  const AllReduce reduce = all_reduce(extent);
  const double rounds = work.ga + 1;
  const double hidden = sync == Sync::kOverlap ? std::min(on.backward, reduce.early) : 0;
  return {.forward = on.forward * rounds,
          .backward = on.backward * rounds,
          .all_reduce_exposed = reduce.early - hidden + reduce.last,
          .update = on.update,
          .all_reduce_hidden = hidden};
}

}  // namespace yoke::plan
