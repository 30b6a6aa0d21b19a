// A cluster read from another tool's file.
#pragma once

#include <string>
#include <vector>

#include "yoke/cluster/cluster.h"

namespace yoke::cluster {

struct ImportedCluster {
  Cluster cluster;
  std::vector<std::string> ignored;  // what the file says that Yoke has no use for, one line each, for people
};

}  // namespace yoke::cluster
