#include "yoke/plan/solve/pipeline/overlap_lane.h"

#include <algorithm>

#include "yoke/plan/device_speed.h"

namespace yoke::plan {

base::Result<std::vector<NodeGroup>> node_groups(const cluster::Cluster& cluster, const std::string& profiled_on,
                                                 std::optional<double> memory_bytes) {
  YOKE_TRY(const DeviceSpeeds speeds, DeviceSpeeds::make(cluster, profiled_on));
  std::vector<NodeGroup> groups;
  for (const auto& node : cluster.nodes()) {
    if (!node.intra_bandwidth && node.devices > 1)
      return base::input_error("`intra_bandwidth` is missing in the cluster file", {.field = node.name});
    if (!node.inter_bandwidth && cluster.nodes().size() > 1)
      return base::input_error("`inter_bandwidth` is missing in the cluster file", {.field = node.name});
    DeviceGroup group{.type = node.type, .devices_per_node = node.devices};
    YOKE_TRY(group.speed, speeds.of(node));
    if (node.memory) group.memory_bytes = static_cast<double>(node.memory->count);
    if (memory_bytes) group.memory_bytes = memory_bytes;
    // A bandwidth that nothing uses (one device, one node) stands in for the other.
    group.intra_bytes_per_s =
        node.intra_bandwidth.value_or(node.inter_bandwidth.value_or(base::Bandwidth{1})).bytes_per_s;
    group.inter_bytes_per_s =
        node.inter_bandwidth.value_or(node.intra_bandwidth.value_or(base::Bandwidth{1})).bytes_per_s;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const NodeGroup& each) {
      const auto& g = each.group;
      return g.type == group.type && g.devices_per_node == group.devices_per_node && g.speed == group.speed &&
             g.memory_bytes == group.memory_bytes && g.intra_bytes_per_s == group.intra_bytes_per_s &&
             g.inter_bytes_per_s == group.inter_bytes_per_s;
    });
    if (same == groups.end()) {
      groups.push_back({group, {node.name}});
    } else {
      ++same->group.nodes;
      same->nodes.push_back(node.name);
    }
  }
  return groups;
}

std::vector<std::string> layer_names(const profile::LayerGraph& graph, const std::vector<int>& layers) {
  std::vector<bool> chosen(static_cast<std::size_t>(graph.size()), false);
  for (const int layer : layers) chosen[static_cast<std::size_t>(layer)] = true;
  std::vector<std::string> names;
  for (const int layer : graph.topological_order()) {
    const auto index = static_cast<std::size_t>(layer);
    if (chosen[index]) names.push_back(graph.layers()[index].id);
  }
  return names;
}

PipelineLane to_lane(const OverlapResult& result, const std::vector<NodeGroup>& groups,
                     const profile::LayerGraph& graph, const std::string& schedule, int workers) {
  PipelineLane lane{.schedule = schedule, .workers = workers};
  for (const auto& stage : result.stages) {
    PipelineStage added{.layers = layer_names(graph, stage.layers),
                        .devices = {},
                        .seconds = stage.alone_seconds,
                        .predicted = StagePrediction{.compute = stage.compute_seconds,
                                                     .transfers = stage.transfer_seconds,
                                                     .all_reduce = stage.all_reduce_seconds,
                                                     .memory_bytes = stage.memory_bytes}};
    const NodeGroup& group = groups[static_cast<std::size_t>(stage.group)];
    for (int i = stage.first_device; i < stage.first_device + stage.replicas; ++i)
      added.devices.push_back(group.device(i));
    lane.stages.push_back(std::move(added));
  }
  return lane;
}

}  // namespace yoke::plan
