// The machines: devices, nodes, the links between them, and the cluster they form. Immutable values with equality;
// a change makes a new cluster. All const members are safe from any thread.
#pragma once

#include <compare>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/base/units.h"

namespace yoke::cluster {

/// One device of a node, written `node0:2`. A node name with a colon in it (an IPv6 address) is put in brackets.
struct DeviceId {
  std::string node;
  int index = 0;

  std::string to_string() const;
  static base::Result<DeviceId> parse(std::string_view text);
  auto operator<=>(const DeviceId&) const = default;
};

/// A machine with `devices` equal devices. Everything but the counts describes one device; what is not known is absent.
struct Node {
  std::string name;
  std::string address;  // where to reach it; empty: by its name
  int devices = 1;
  std::string type = "cpu";           // devices of one type are interchangeable to the planner
  double speed = 1;                   // on a CPU node: emulates a device slower by this factor (0 < speed <= 1)
  std::optional<base::Bytes> memory;  // of one device
  std::optional<base::Bandwidth> intra_bandwidth;  // between devices of the node
  std::optional<base::Bandwidth> inter_bandwidth;  // between this node and others
  std::optional<double> tflops;                    // peak of one device
  std::optional<double> price_per_hour;            // of one device

  bool operator==(const Node&) const = default;
};

/// Checks one node by itself; `where` is put into the message.
base::Status validate(const Node& node, const base::Where& where = {});

class Cluster {
 public:
  /// At least one node, names unique, every node valid.
  static base::Result<Cluster> make(std::vector<Node> nodes);

  const std::vector<Node>& nodes() const { return nodes_; }
  int device_count() const;
  /// nullptr when there is no such node.
  const Node* find(std::string_view name) const;
  /// Input error that names the nearest node when there is none.
  base::Result<Node> require_node(std::string_view name) const;
  /// The node of the device. Input error, at the device, when there is no such node (it names the nearest) or the node
  /// has not so many devices.
  base::Result<Node> require_device(const DeviceId& device) const;
  /// All devices, node by node.
  std::vector<DeviceId> devices() const;
  /// Distinct device types in order of first appearance.
  std::vector<std::string> types() const;
  /// Bandwidth between two devices: the node's own inside a node, the slower of the two nodes' otherwise.
  std::optional<base::Bandwidth> link(const DeviceId& from, const DeviceId& to) const;

  // Pure changes.
  /// Only these nodes, in the order of `names`.
  base::Result<Cluster> subset(std::span<const std::string> names) const;
  base::Result<Cluster> resized(std::string_view node, int devices) const;
  base::Result<Cluster> with(Node node) const;
  base::Result<Cluster> without(std::string_view node) const;

  bool operator==(const Cluster&) const = default;

 private:
  explicit Cluster(std::vector<Node> nodes) : nodes_(std::move(nodes)) {}
  std::vector<Node> nodes_;
};

}  // namespace yoke::cluster
