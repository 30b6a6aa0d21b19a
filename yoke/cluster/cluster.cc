#include "yoke/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "yoke/base/text.h"

namespace yoke::cluster {

using base::input_error;
using base::Result;
using base::Status;
using base::Where;

std::string DeviceId::to_string() const {
  const bool bracketed = node.find(':') != std::string::npos;
  return bracketed ? fmt::format("[{}]:{}", node, index) : fmt::format("{}:{}", node, index);
}

Result<DeviceId> DeviceId::parse(std::string_view text) {
  const auto fail = [&] {
    return input_error(fmt::format("found {}, expected a device such as node0:2 or [fe80::1]:0", base::quote(text)));
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return fail();
  std::string_view node = text.substr(0, colon);
  if (node.starts_with('[') && node.ends_with(']')) {
    node = node.substr(1, node.size() - 2);
  } else if (node.find(':') != std::string_view::npos) {
    return fail();
  }
  const auto index = base::parse_integer(text.substr(colon + 1));
  if (node.empty() || !index.ok() || *index < 0 || *index > 1'000'000) return fail();
  return DeviceId{std::string(node), static_cast<int>(*index)};
}

Status validate(const Node& node, const Where& where) {
  const auto fail = [&](std::string_view field, std::string message) -> Status {
    Where at = where;
    at.field = at.field.empty() ? std::string(field) : fmt::format("{}.{}", at.field, field);
    return input_error(std::move(message), at);
  };
  if (!base::is_plain_name(node.name)) {
    return fail("name",
                fmt::format("found {}, expected a name without blanks, commas and slashes", base::quote(node.name)));
  }
  if (!node.address.empty() && !base::is_plain_name(node.address)) {
    return fail("address", fmt::format("found {}, expected a host such as node0.lab, 10.0.0.7 or user@node0",
                                       base::quote(node.address)));
  }
  if (node.devices < 1 || node.devices > 1'000'000) {
    return fail("devices", fmt::format("found {}, expected 1 to 1000000 devices", node.devices));
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (node.type.empty() || std::any_of(node.type.begin(), node.type.end(), is_control) ||
      base::valid_utf8_prefix(node.type) != node.type.size()) {
    return fail("type", fmt::format("found {}, expected a name such as cpu or V100", base::quote(node.type)));
  }
  if (!(node.speed > 0 && node.speed <= 1)) {
    return fail("speed",
                fmt::format("found {}, expected a number above 0 and at most 1 (0.5 is half as fast)", node.speed));
  }
  if (node.memory && node.memory->count <= 0) return fail("memory", "found 0, expected more than 0 bytes");
  const auto positive = [](double value) { return value > 0 && std::isfinite(value); };
  // Below a byte per second times overflow: that is a unit gone wrong, not a link.
  const auto usable = [](base::Bandwidth bandwidth) {
    return bandwidth.bytes_per_s >= 1 && std::isfinite(bandwidth.bytes_per_s);
  };
  if (node.intra_bandwidth && !usable(*node.intra_bandwidth)) {
    return fail("intra_bandwidth",
                fmt::format("found {}, expected at least 1 byte per second", node.intra_bandwidth->bytes_per_s));
  }
  if (node.inter_bandwidth && !usable(*node.inter_bandwidth)) {
    return fail("inter_bandwidth",
                fmt::format("found {}, expected at least 1 byte per second", node.inter_bandwidth->bytes_per_s));
  }
  if (node.tflops && !positive(*node.tflops))
    return fail("tflops", fmt::format("found {}, expected a number > 0", *node.tflops));
  if (node.price_per_hour && !(*node.price_per_hour >= 0 && std::isfinite(*node.price_per_hour))) {
    return fail("price_per_hour", fmt::format("found {}, expected a number >= 0", *node.price_per_hour));
  }
  return {};
}

Result<Cluster> Cluster::make(std::vector<Node> nodes) {
  if (nodes.empty()) return input_error("found no node, expected at least one");
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Where where{.field = fmt::format("nodes[{}]", i)};
    YOKE_CHECK(validate(nodes[i], where));
    if (!names.insert(nodes[i].name).second) {
      return input_error(fmt::format("the node {} is given twice, expected unique names", base::quote(nodes[i].name)),
                         where);
    }
  }
  return Cluster(std::move(nodes));
}

int Cluster::device_count() const {
  int count = 0;
  for (const auto& node : nodes_) count += node.devices;
  return count;
}

const Node* Cluster::find(std::string_view name) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& node) { return node.name == name; });
  return found == nodes_.end() ? nullptr : &*found;
}

Result<Node> Cluster::require_node(std::string_view name) const {
  if (const Node* node = find(name)) return *node;
  std::vector<std::string> names;
  for (const auto& node : nodes_) names.push_back(node.name);
  const std::string hint = base::did_you_mean(name, names);
  return input_error(
      fmt::format("the cluster has no node {}{}", base::quote(name),
                  hint.empty() ? fmt::format("; it has {}", base::quote(base::join_words(names), 200)) : hint));
}

Result<Node> Cluster::require_device(const DeviceId& device) const {
  auto node = require_node(device.node);
  if (!node.ok()) return input_error(node.error().message, {.field = device.to_string()});
  if (device.index < 0 || device.index >= node->devices) {
    return input_error(fmt::format("{} has {} {}, numbered from 0", device.node, node->devices,
                                   node->devices == 1 ? "device" : "devices"),
                       {.field = device.to_string()});
  }
  return node;
}

std::vector<DeviceId> Cluster::devices() const {
  std::vector<DeviceId> ids;
  for (const auto& node : nodes_) {
    for (int index = 0; index < node.devices; ++index) ids.push_back({node.name, index});
  }
  return ids;
}

std::vector<std::string> Cluster::types() const {
  std::vector<std::string> types;
  for (const auto& node : nodes_) {
    if (std::find(types.begin(), types.end(), node.type) == types.end()) types.push_back(node.type);
  }
  return types;
}

std::optional<base::Bandwidth> Cluster::link(const DeviceId& from, const DeviceId& to) const {
  const Node* a = find(from.node);
  const Node* b = find(to.node);
  if (a == nullptr || b == nullptr) return std::nullopt;
  if (a == b) return a->intra_bandwidth;
  if (!a->inter_bandwidth || !b->inter_bandwidth) return std::nullopt;
  return std::min(*a->inter_bandwidth, *b->inter_bandwidth);
}

Result<Cluster> Cluster::subset(std::span<const std::string> names) const {
  std::vector<Node> chosen;
  for (const auto& name : names) {
    YOKE_TRY(Node node, require_node(name));
    chosen.push_back(std::move(node));
  }
  return make(std::move(chosen));
}

Result<Cluster> Cluster::resized(std::string_view node, int devices) const {
  YOKE_TRY(const Node present, require_node(node));
  std::vector<Node> nodes = nodes_;
  for (auto& each : nodes) {
    if (each.name == present.name) each.devices = devices;
  }
  return make(std::move(nodes));
}

Result<Cluster> Cluster::with(Node node) const {
  std::vector<Node> nodes = nodes_;
  nodes.push_back(std::move(node));
  return make(std::move(nodes));
}

Result<Cluster> Cluster::without(std::string_view node) const {
  YOKE_TRY(const Node gone, require_node(node));
  std::vector<Node> nodes;
  for (const auto& each : nodes_) {
    if (each.name != gone.name) nodes.push_back(each);
  }
  return make(std::move(nodes));
}

}  // namespace yoke::cluster
