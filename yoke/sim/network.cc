#include "yoke/sim/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "yoke/cluster/device_type.h"

namespace yoke::sim {
namespace {

base::Error missing(const std::string& what, const std::string& node) {
  return base::input_error(
      fmt::format("`{}` is missing in the cluster file, but devices of {} have to send", what, node), {.field = node});
}

}  // namespace

NetworkOptions with_measured_links(NetworkOptions options, const profile::CommProfile& comm) {
  const auto fill = [](double& value, double measured) {
    if (value == 0) value = measured;
  };
  for (const bool intra : {true, false}) {
    const auto scope = intra ? profile::LinkScope::kIntra : profile::LinkScope::kInter;
    const auto link = std::ranges::find_if(comm.links, [&](const profile::LinkProfile& each) {
      return each.scope == scope && each.op == profile::LinkOp::kMessage;
    });
    if (link == comm.links.end()) continue;
    const auto reduce = std::ranges::find_if(comm.links, [&](const profile::LinkProfile& each) {
      return each.scope == scope && each.op == profile::LinkOp::kAllReduce && each.backend == link->backend;
    });
    if (reduce != comm.links.end() && reduce->ranks > 1) {
      const double around = 2.0 * (reduce->ranks - 1) / reduce->ranks;
      const double stretch = link->bandwidth.bytes_per_s / (around * reduce->bandwidth.bytes_per_s);
      fill(intra ? options.intra_reduce_stretch : options.inter_reduce_stretch, std::max(1.0, stretch));
    }
    fill(intra ? options.intra_latency : options.inter_latency, link->latency_ms / 1000);
    fill(intra ? options.intra_processor : options.inter_processor, link->processor_seconds_per_byte.value_or(0));
  }
  return options;
}

Network Network::ideal(int devices) {
  Network network;
  network.ideal_ = true;
  network.nodes_ = 1;
  network.node_of_.assign(static_cast<std::size_t>(devices), 0);
  return network;
}

base::Result<Network> Network::make(const cluster::Cluster& cluster, const std::vector<cluster::DeviceId>& devices,
                                    const NetworkOptions& options) {
  Network network;
  network.options_ = options;
  std::map<std::string, int> known;
  std::vector<cluster::Node> nodes;
  std::vector<int> used;
  for (const auto& device : devices) {
    YOKE_TRY(cluster::Node node, cluster.require_device(device));
    network.processors_.push_back(cluster::is_processor(node.type));
    const auto [found, added] = known.try_emplace(device.node, static_cast<int>(nodes.size()));
    if (added) {
      nodes.push_back(std::move(node));
      used.push_back(0);
    }
    ++used[static_cast<std::size_t>(found->second)];
    network.node_of_.push_back(found->second);
  }
  network.nodes_ = static_cast<int>(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].intra_bandwidth && used[i] > 1) return missing("intra_bandwidth", nodes[i].name);
    if (!nodes[i].inter_bandwidth && nodes.size() > 1) return missing("inter_bandwidth", nodes[i].name);
  }
  const auto rate = [](const std::optional<base::Bandwidth>& bandwidth) {
    return bandwidth ? std::max(bandwidth->bytes_per_s, 1.0) : 1.0;  // one that nothing uses may be anything
  };
  for (const int node : network.node_of_) {
    const double bytes_per_s = rate(nodes[static_cast<std::size_t>(node)].intra_bandwidth);
    network.capacities_.insert(network.capacities_.end(), {bytes_per_s, bytes_per_s});
  }
  for (const auto& node : nodes) {
    network.capacities_.insert(network.capacities_.end(), {rate(node.inter_bandwidth), rate(node.inter_bandwidth)});
  }
  if (options.switch_bytes_per_s) {
    network.switch_ = static_cast<int>(network.capacities_.size());
    network.capacities_.push_back(*options.switch_bytes_per_s);
  }
  return network;
}

Path Network::between(int from, int to) const {
  if (ideal_ || from == to) return {};
  const int a = node_of_[static_cast<std::size_t>(from)];
  const int b = node_of_[static_cast<std::size_t>(to)];
  if (a == b) return {{port(from, true), port(to, false)}, options_.intra_latency, options_.intra_processor};
  Path path{{card(a, true), card(b, false)}, options_.inter_latency, options_.inter_processor};
  if (switch_) path.resources.push_back(*switch_);
  return path;
}

Path Network::ring(const std::vector<int>& members) const {
  if (ideal_ || members.size() < 2) return {};
  std::vector<int> order = members;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return node_of_[static_cast<std::size_t>(a)] < node_of_[static_cast<std::size_t>(b)];
  });
  Path ring;
  double slowest = 0;
  bool outside = false;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Path edge = between(order[i], order[(i + 1) % order.size()]);
    for (const int resource : edge.resources) {
      if (switch_ && resource == *switch_) {
        outside = true;
      } else {
        ring.resources.push_back(resource);
      }
    }
    slowest = std::max(slowest, edge.latency);
    ring.processor = std::max(ring.processor, edge.processor);
  }
  // The ring crosses the switch at several places at once, but what counts for its pace is one of them.
  if (outside) ring.resources.push_back(*switch_);
  const int first = node_of_[static_cast<std::size_t>(order.front())];
  const bool one_node = first == node_of_[static_cast<std::size_t>(order.back())];  // they are sorted
  ring.stretch = std::max(1.0, one_node ? options_.intra_reduce_stretch : options_.inter_reduce_stretch);
  ring.latency = 2 * static_cast<double>(order.size() - 1) * slowest;
  return ring;
}

double Network::tree_latency() const {
  const double slowest = nodes_ > 1 ? options_.inter_latency : options_.intra_latency;
  return 2 * std::ceil(std::log2(std::max(1, devices()))) * slowest;
}

Transfers::Transfers(const Network& network) : capacities_(network.capacities()), using_(capacities_.size()) {}

void Transfers::find_rate(Transfer& transfer) const {
  transfer.rate = std::numeric_limits<double>::infinity();
  for (const int resource : transfer.path->resources) {
    const double part = share(resource);
    if (part < transfer.rate) {
      transfer.rate = part;
      transfer.binding = resource;
    }
  }
}

void Transfers::ask(int index, double at) {
  Transfer& transfer = transfers_[static_cast<std::size_t>(index)];
  transfer.look = at;
  looks_.push_back({index, ++transfer.turn, at});
}

void Transfers::set_pace(double now, int index, double old_rate) {
  Transfer& transfer = transfers_[static_cast<std::size_t>(index)];
  if (transfer.rate == old_rate) return;
  transfer.left = std::max(0.0, transfer.left - old_rate * (now - transfer.since));
  transfer.since = now;
  transfer.end = now + transfer.left / transfer.rate;
  // A later end is found out at the look that was asked for.
  if (transfer.end < transfer.look) ask(index, transfer.end);
}

void Transfers::touched(double now, int resource, int except) {
  const double part = share(resource);
  for (const int index : using_[static_cast<std::size_t>(resource)]) {
    if (index == except) continue;
    Transfer& transfer = transfers_[static_cast<std::size_t>(index)];
    const double old_rate = transfer.rate;
    if (part < transfer.rate) {
      transfer.rate = part;
      transfer.binding = resource;
    } else if (transfer.binding == resource) {
      find_rate(transfer);
    }
    set_pace(now, index, old_rate);
  }
}

int Transfers::begin(double now, double bytes, const Path& path) {
  int index = 0;
  if (free_.empty()) {
    index = static_cast<int>(transfers_.size());
    transfers_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  const std::uint32_t turn = transfers_[static_cast<std::size_t>(index)].turn;
  transfers_[static_cast<std::size_t>(index)] = {
      .left = bytes, .since = now, .look = std::numeric_limits<double>::infinity(), .turn = turn, .path = &path};
  for (const int resource : path.resources) using_[static_cast<std::size_t>(resource)].push_back(index);
  for (const int resource : path.resources) {
    if (using_[static_cast<std::size_t>(resource)].size() > 1) touched(now, resource, index);
  }
  find_rate(transfers_[static_cast<std::size_t>(index)]);
  set_pace(now, index, 0);
  return index;
}

bool Transfers::over(double now, int index, std::uint32_t turn) {
  const Transfer& transfer = transfers_[static_cast<std::size_t>(index)];
  if (transfer.turn != turn) return false;
  if (transfer.end > now) {
    ask(index, transfer.end);
    return false;
  }
  const Path& path = *transfer.path;
  for (const int resource : path.resources) {
    auto& here = using_[static_cast<std::size_t>(resource)];
    here.erase(std::find(here.begin(), here.end(), index));
  }
  for (const int resource : path.resources) {
    if (!using_[static_cast<std::size_t>(resource)].empty()) touched(now, resource, index);
  }
  ++transfers_[static_cast<std::size_t>(index)].turn;
  free_.push_back(index);
  return true;
}

}  // namespace yoke::sim
