// Yoke's cluster file (docs/formats/cluster.md), and one door for every cluster description people already have.
#pragma once

#include <string>
#include <string_view>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"

namespace yoke::cluster {

/// Yoke's own file, YAML or JSON by its first character. Unknown keys and newer versions are errors.
base::Result<Cluster> parse_cluster(std::string_view text, const std::string& file);

/// YAML that parses back to an equal cluster.
std::string to_cluster_yaml(const Cluster& cluster);

/// Reads a cluster file, JABAS's cluster_info JSON or an MPI hostfile, told apart by what is in it.
base::Result<Cluster> load_cluster(const std::string& path);

base::Status save_cluster(const std::string& path, const Cluster& cluster);

}  // namespace yoke::cluster
