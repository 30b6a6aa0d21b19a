// JABAS's and IIDP's cluster_info.json: a map from host names to
//   {"type": "Tesla V100-PCIE-16GB", "tfplos": 14.13, "number": 4,
//    "intra_network_bandwidth": 15750000000, "inter_network_bandwidth": 12500000000}
// with bandwidths in bytes per second. `tfplos` is JABAS's own spelling; `tflops` is read too, and it may be absent.
#pragma once

#include <string>
#include <string_view>

#include "yoke/base/result.h"
#include "yoke/cluster/imported_cluster.h"

namespace yoke::cluster {

base::Result<ImportedCluster> parse_jabas_cluster(std::string_view text, const std::string& file);

/// Keeps what JABAS's file can say; address, speed, memory and price are lost. Input error when a node lacks a
/// bandwidth, which JABAS cannot do without.
base::Result<std::string> to_jabas_cluster(const Cluster& cluster);

}  // namespace yoke::cluster
