#include "yoke/cli/run/devices.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "yoke/base/text.h"
#include "yoke/cli/command.h"
#include "yoke/cli/launch/machine.h"
#include "yoke/cluster/device_type.h"

namespace yoke::cli {
namespace {

using base::Result;

/// `user@host` is how some hostfiles give the user to log in as.
std::string host_part(const std::string& address) {
  return address.substr(address.find('@') + 1);
}

engine::DeviceSpec spec_of(const cluster::Node& node, int index, int threads) {
  engine::DeviceSpec device{.id = {node.name, index}, .type = node.type, .speed = node.speed, .threads = threads};
  if (node.memory) device.memory_bytes = node.memory->count;
  return device;
}

}  // namespace

cluster::Cluster this_machine() {
  cluster::Node node{.name = "localhost"};
  if (const int gpus = engine::gpu_count(); gpus > 0) {
    node.devices = gpus;
    node.type = "gpu";
  }
  return *cluster::Cluster::make({node});
}

std::vector<std::string> nodes_elsewhere(const cluster::Cluster& cluster) {
  std::vector<std::string> names;
  for (const auto& node : cluster.nodes()) {
    if (!node.address.empty() && !is_this_machine(host_part(node.address))) names.push_back(node.name);
  }
  return names;
}

std::string mpirun_command(const cluster::Cluster& cluster, const std::string& rest) {
  std::vector<std::string> hosts;
  for (const auto& node : cluster.nodes()) {
    hosts.push_back(fmt::format("{}:{}", node.address.empty() ? node.name : host_part(node.address), node.devices));
  }
  return fmt::format("mpirun -n {} --host {} yoke train {}", cluster.device_count(), fmt::join(hosts, ","), rest);
}

std::vector<engine::DeviceSpec> emulated_devices(const cluster::Cluster& cluster, int cores, const plan::Plan* plan) {
  auto ids = cluster.devices();
  if (plan != nullptr) {
    const auto used = plan->devices();
    std::erase_if(ids, [&](const auto& id) { return std::ranges::find(used, id) == used.end(); });
  }
  const int threads = std::max(1, cores / std::max(1, static_cast<int>(ids.size())));
  std::vector<engine::DeviceSpec> devices;
  for (const auto& id : ids) devices.push_back(spec_of(*cluster.find(id.node), id.index, threads));
  return devices;
}

Result<comm::LinkShape> emulated_link(const cluster::Node& node) {
  if (node.devices != 1 || !node.inter_bandwidth) {
    return option_error(
        "--emulate-links",
        fmt::format("found node {} with {} {} and {} inter_bandwidth, expected nodes of one device each "
                    "with an inter_bandwidth in the cluster file",
                    base::quote(node.name), node.devices, node.devices == 1 ? "device" : "devices",
                    node.inter_bandwidth ? "an" : "no"));
  }
  return comm::LinkShape{.bytes_per_second = node.inter_bandwidth->bytes_per_s};
}

RankPlace this_place() {
  return {.host = host_name(),
          .usable_cores = usable_cores(),
          .host_cores = std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))),
          .host_memory = memory_share(1)};
}

base::Json to_json(const RankPlace& place) {
  return {{"host", place.host},
          {"usable_cores", place.usable_cores},
          {"host_cores", place.host_cores},
          {"host_memory", place.host_memory}};
}

Result<RankPlace> parse_place(const std::string& json) {
  YOKE_TRY(const base::Document document, base::parse_json(json, "place of a rank"));
  base::Reader reader(document);
  base::View root = reader.root();
  RankPlace place;
  place.host = root.field("host").text();
  place.usable_cores = static_cast<int>(root.field("usable_cores").integer(base::kCount));
  place.host_cores = static_cast<int>(root.field("host_cores").integer(base::kCount));
  place.host_memory = root.field("host_memory").integer(base::kNotNegative);
  if (!reader.ok()) return reader.error();
  return place;
}

Result<cluster::Cluster> cluster_of(const std::vector<RankPlace>& places) {
  std::vector<cluster::Node> nodes;
  for (const auto& place : places) {
    const auto node = std::ranges::find(nodes, place.host, &cluster::Node::name);
    if (node == nodes.end()) {
      nodes.push_back({.name = place.host});
    } else {
      ++node->devices;
    }
  }
  return cluster::Cluster::make(std::move(nodes));
}

Result<std::vector<engine::DeviceSpec>> placed_devices(const cluster::Cluster& cluster, bool given,
                                                       const std::vector<RankPlace>& places) {
  if (static_cast<std::size_t>(cluster.device_count()) != places.size()) {
    return option_error("--cluster", fmt::format("found {} devices, expected as many as ranks were started: {}",
                                                 cluster.device_count(), places.size()));
  }
  std::map<std::string, int> on_host;
  for (const auto& place : places) ++on_host[place.host];
  const auto ids = cluster.devices();
  std::map<std::string, int> taken;
  std::vector<engine::DeviceSpec> devices;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const RankPlace& place = places[rank];
    const cluster::DeviceId id = given ? ids[rank] : cluster::DeviceId{place.host, taken[place.host]++};
    // A launcher that binds ranks to cores has dealt them out; else all ranks of a host see all of them.
    const int threads = std::max(1, std::min(place.usable_cores, place.host_cores / on_host[place.host]));
    devices.push_back(spec_of(*cluster.find(id.node), id.index, threads));
    limit_memory(devices.back(), place.host_memory / on_host[place.host]);
  }
  return devices;
}

void limit_memory(engine::DeviceSpec& device, std::int64_t bytes) {
  if (cluster::is_processor(device.type) && !device.memory_bytes) device.memory_bytes = bytes;
}

base::Json to_json(const engine::DeviceSpec& device) {
  base::Json json{{"node", device.id.node},
                  {"index", device.id.index},
                  {"type", device.type},
                  {"speed", device.speed},
                  {"threads", device.threads}};
  if (device.memory_bytes) json["memory_bytes"] = *device.memory_bytes;
  return json;
}

engine::DeviceSpec read_device(base::View view) {
  engine::DeviceSpec device;
  device.id.node = view.field("node").text();
  device.id.index = static_cast<int>(view.field("index").integer({.least = 0, .most = 1e9}));
  device.type = view.field("type").text();
  device.speed = view.field("speed").number(base::kPositive);
  device.threads = static_cast<int>(view.field("threads").integer(base::kCount));
  if (auto memory = view.find("memory_bytes")) device.memory_bytes = memory->integer(base::kNotNegative);
  return device;
}

}  // namespace yoke::cli
