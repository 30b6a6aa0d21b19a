// What transfers of simulated devices share, and how fast each of them is at any moment.
//
// Resources: every device has a port out and a port in for transfers inside its node, with the node's intra-node
// bandwidth; every node has a network card, out and in apart, with its inter-node bandwidth, shared by its devices; and
// there may be a switch that all traffic between nodes shares. A transfer uses some of them at once and moves at the
// least of its fair shares: the capacity of each divided by the transfers on it. An all-reduce is one transfer around a
// ring of its members, node by node, of 2 (n-1)/n of its bytes, with 2 (n-1) latencies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/profile/profile.h"

namespace yoke::sim {

struct NetworkOptions {
  double intra_latency = 0;  // seconds, of one message inside a node
  double inter_latency = 0;  // between nodes
  // Processor seconds for a byte that is sent or received. Devices that are processors have them less for their passes.
  double intra_processor = 0;
  double inter_processor = 0;
  // How much longer an all-reduce takes than its messages alone would: adding up takes time too. 0: not known, none.
  double intra_reduce_stretch = 0;
  double inter_reduce_stretch = 0;
  std::optional<double> switch_bytes_per_s;
};

/// What `options` leave at 0, as the links of the first backend that was measured have it.
NetworkOptions with_measured_links(NetworkOptions options, const profile::CommProfile& comm);

/// What a transfer goes through.
struct Path {
  std::vector<int> resources;  // indices into Network::capacities(); none: it takes no time beyond the latency
  double latency = 0;          // seconds in all
  double processor = 0;        // seconds for a byte, at both ends
  double stretch = 1;          // of a ring: bytes take that much longer
};

/// Immutable. Devices are numbered as they were given.
class Network {
 public:
  /// Takes no time at all, whatever is sent.
  static Network ideal(int devices);
  /// Input error for a device that the cluster does not have (named, with the nearest) and for a bandwidth that is
  /// needed and missing.
  static base::Result<Network> make(const cluster::Cluster& cluster, const std::vector<cluster::DeviceId>& devices,
                                    const NetworkOptions& options = {});

  const std::vector<double>& capacities() const { return capacities_; }
  int devices() const { return static_cast<int>(node_of_.size()); }
  /// Whether the device computes with the processor that moves its bytes.
  bool is_processor(int device) const { return !ideal_ && processors_[static_cast<std::size_t>(device)]; }
  Path between(int from, int to) const;
  /// Around all of them, for an all-reduce of which each member sends `2 (n-1)/n` of the bytes. One member: nothing.
  Path ring(const std::vector<int>& members) const;
  /// Of a small all-reduce, which goes up and down a tree.
  double tree_latency() const;

 private:
  Network() = default;
  int port(int device, bool out) const { return 2 * device + (out ? 0 : 1); }
  int card(int node, bool out) const { return 2 * devices() + 2 * node + (out ? 0 : 1); }

  std::vector<double> capacities_;  // ports of devices, cards of nodes, the switch
  std::vector<int> node_of_;
  std::vector<bool> processors_;  // by device
  int nodes_ = 0;
  bool ideal_ = false;
  std::optional<int> switch_;
  NetworkOptions options_;
};

/// The transfers that are under way. One thread. Whoever drives it keeps the clock: looks() says when to look at a
/// transfer that may be over then. One that became slower since is not: over() then asks for another look.
class Transfers {
 public:
  struct Look {
    int transfer = 0;
    std::uint32_t turn = 0;
    double at = 0;
  };

  /// Borrowed; must outlive this.
  explicit Transfers(const Network& network);

  /// A number that is used again after it is over. `path` must stay where it is until then.
  int begin(double now, double bytes, const Path& path);
  /// At the time of a look: whether the transfer has ended now. If so its share is the others' from now on.
  bool over(double now, int transfer, std::uint32_t turn);
  /// Since they were taken last; whoever takes them clears them.
  std::vector<Look>& looks() { return looks_; }

 private:
  struct Transfer {
    double left = 0;  // bytes, at `since`
    double since = 0;
    double rate = 0;
    double end = 0;
    double look = 0;         // the earliest that was asked for
    int binding = -1;        // the resource that makes it this slow
    std::uint32_t turn = 0;  // looks of other turns are void
    const Path* path = nullptr;
  };
  double share(int resource) const {
    const auto index = static_cast<std::size_t>(resource);
    return capacities_[index] / static_cast<double>(using_[index].size());
  }
  void find_rate(Transfer& transfer) const;
  void set_pace(double now, int index, double old_rate);
  void ask(int index, double at);
  /// The number of transfers on it has changed.
  void touched(double now, int resource, int except);

  const std::vector<double>& capacities_;
  std::vector<std::vector<int>> using_;  // by resource
  std::vector<Transfer> transfers_;
  std::vector<int> free_;
  std::vector<Look> looks_;
};

}  // namespace yoke::sim
