#include "yoke/plan/import/pipedream.h"

#include <unordered_map>
#include <utility>
#include <vector>

namespace yoke::plan {

base::Result<cluster::Cluster> cluster_of(const profile::pipedream::Driver& driver) {
  std::vector<cluster::Node> nodes;
  std::unordered_map<std::string, std::size_t> indices;
  for (const auto& machine : driver.machines) {
    const auto [found, is_new] = indices.emplace(machine.host, nodes.size());
    if (is_new) nodes.push_back({.name = machine.host, .devices = 0});
    ++nodes[found->second].devices;
  }
  return cluster::Cluster::make(std::move(nodes));
}

}  // namespace yoke::plan
