// Hostfiles of Open MPI, MPICH and Horovod. One host a line, `#` starts a comment:
//
//   node0 slots=8            also `node0:8`, `slots = 8`; without a number the host has one slot
//   user@node1 slots=4 max_slots=8
//   fe80::1 slots=4          also `[fe80::1]:4`
//
// A slot is a device. A host named again adds its slots, as in Open MPI. `max_slots` is checked and not used.
#pragma once

#include <string>
#include <string_view>

#include "yoke/base/result.h"
#include "yoke/cluster/imported_cluster.h"

namespace yoke::cluster {

/// Hosts in the order of their first line. `user@host` is named `host` and reached at `user@host`.
base::Result<ImportedCluster> parse_hostfile(std::string_view text, const std::string& file);

/// One `host slots=n` a line, by address where a node has one. Everything else about the nodes is lost.
std::string to_hostfile(const Cluster& cluster);

}  // namespace yoke::cluster
