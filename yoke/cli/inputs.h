// What the planning commands plan for: a cluster and the profiles of a model on it, from Yoke's own files or from a
// JABAS/IIDP configuration.
#pragma once

#include <string>

#include "yoke/cli/command.h"
#include "yoke/cluster/cluster.h"
#include "yoke/profile/profile.h"

namespace yoke::cli {

struct InputOptions {
  std::string config;    // JABAS/IIDP config JSON
  std::string cluster;   // cluster file, cluster_info JSON or hostfile
  std::string profiles;  // Yoke profile folder

  /// Declares --config, --cluster and --profiles.
  void declare(CLI::App& command);
};

struct Inputs {
  cluster::Cluster cluster;
  profile::ProfileSet profiles;
};

base::Result<Inputs> load_inputs(const InputOptions& options, Context& context);

}  // namespace yoke::cli
