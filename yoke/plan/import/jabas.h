// A whole JABAS or IIDP workspace: the config file and everything it points at.
#pragma once

#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/profile/jabas/config.h"
#include "yoke/profile/profile.h"

namespace yoke::plan {

struct JabasWorkspace {
  profile::jabas::Config config;
  cluster::Cluster cluster;        // the available servers, in the order of the config
  profile::ProfileSet profiles;    // of the same nodes in the same order
  std::vector<std::string> notes;  // what was not used or looks incomplete, one line each, for people
};

/// Relative paths in the config count from the working directory, then from the config file's folder.
base::Result<JabasWorkspace> load_jabas(const std::string& config_path);

/// Writes config.json, cluster_info.json and the four profile folders into `folder`, named as in JABAS's quickstart
/// and not by the paths of `workspace.config`. JABAS run inside `folder` finds them, and so does load_jabas.
base::Status save_jabas(const std::string& folder, const JabasWorkspace& workspace);

}  // namespace yoke::plan
