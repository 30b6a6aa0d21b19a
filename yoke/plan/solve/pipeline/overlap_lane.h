// From a cluster to the groups of overlap.h, and from its answer to a lane of a plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/plan/plan.h"
#include "yoke/plan/solve/pipeline/overlap.h"
#include "yoke/profile/layer_graph.h"

namespace yoke::plan {

/// Equal nodes, and which they are.
struct NodeGroup {
  DeviceGroup group;
  std::vector<std::string> nodes;

  /// Device `index` of the group, which counts node by node.
  cluster::DeviceId device(int index) const {
    const int per_node = group.devices_per_node;
    return {nodes[static_cast<std::size_t>(index / per_node)], index % per_node};
  }
};

/// Nodes that are alike together, in order of appearance. `memory_bytes`: of every device, instead of what the cluster
/// says. Input error when a speed (device_speed.h) or a bandwidth that is needed is not known.
base::Result<std::vector<NodeGroup>> node_groups(const cluster::Cluster& cluster, const std::string& profiled_on,
                                                 std::optional<double> memory_bytes = {});

/// Ids in execution order, so that the first and the last say what they span.
std::vector<std::string> layer_names(const profile::LayerGraph& graph, const std::vector<int>& layers);

/// The answer of solve_overlap() for these groups as a lane of `workers`.
PipelineLane to_lane(const OverlapResult& result, const std::vector<NodeGroup>& groups,
                     const profile::LayerGraph& graph, const std::string& schedule, int workers);

}  // namespace yoke::plan
