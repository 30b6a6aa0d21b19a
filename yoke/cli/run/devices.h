// The devices of a job, one per rank, from a cluster or from what the ranks tell of themselves.
#pragma once

#include <string>
#include <vector>

#include "yoke/base/document.h"
#include "yoke/base/json.h"
#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/comm/decorate/shaped.h"
#include "yoke/engine/rank.h"
#include "yoke/plan/plan.h"

namespace yoke::cli {

/// One node `localhost` with all GPUs of this machine, or else its processor as one device.
cluster::Cluster this_machine();

/// Names of the nodes whose address is another machine; every other node is emulated on this one.
std::vector<std::string> nodes_elsewhere(const cluster::Cluster& cluster);

/// The command line of mpirun that starts one rank per device of the cluster; `rest` is what comes after `yoke train`.
std::string mpirun_command(const cluster::Cluster& cluster, const std::string& rest);

/// All devices on this machine share its cores. `plan`: only those that it uses; null: all.
std::vector<engine::DeviceSpec> emulated_devices(const cluster::Cluster& cluster, int cores,
                                                 const plan::Plan* plan = nullptr);

/// How slow the messages of a rank on this node are to be. Input error at --emulate-links if the node does not say, or
/// has several devices, whose links inside the node would not be alike.
base::Result<comm::LinkShape> emulated_link(const cluster::Node& node);

/// Where a rank runs, as it tells the others.
struct RankPlace {
  std::string host;
  int usable_cores = 1;          // that this rank may use
  int host_cores = 1;            // that its host has
  std::int64_t host_memory = 0;  // bytes that devices of its host may take together
  bool operator==(const RankPlace&) const = default;
};
RankPlace this_place();
base::Json to_json(const RankPlace& place);
base::Result<RankPlace> parse_place(const std::string& json);

/// A node per host, named after it, with a CPU device per rank.
base::Result<cluster::Cluster> cluster_of(const std::vector<RankPlace>& places);
/// Rank i is the i-th device of the cluster if `given`, else the next of its host's node. Input error at --cluster when
/// there are not as many devices as ranks.
base::Result<std::vector<engine::DeviceSpec>> placed_devices(const cluster::Cluster& cluster, bool given,
                                                             const std::vector<RankPlace>& places);

/// A processor without a `memory` of its own gets this many bytes: it lives off that of its machine.
void limit_memory(engine::DeviceSpec& device, std::int64_t bytes);

base::Json to_json(const engine::DeviceSpec& device);
engine::DeviceSpec read_device(base::View view);

}  // namespace yoke::cli
