// What the planning commands plan for: a cluster and the profiles of a model on it, from Yoke's own files or from a
// JABAS/IIDP configuration.
#pragma once

#include <optional>
#include <string>

#include "yoke/cli/command.h"
#include "yoke/cluster/cluster.h"
#include "yoke/profile/layer_graph.h"
#include "yoke/profile/profile.h"

namespace yoke::cli {

struct InputOptions {
  std::string config;    // JABAS/IIDP config JSON
  std::string cluster;   // cluster file, cluster_info JSON or hostfile
  std::string profiles;  // Yoke profile folder

  /// Declares --config, --cluster and --profiles.
  void declare(Arguments& command);
};

struct Inputs {
  cluster::Cluster cluster;
  profile::ProfileSet profiles;
};

base::Result<Inputs> load_inputs(const InputOptions& options, Context& context);

/// The cluster with the bandwidths that the all-reduces were profiled for where its file gives none. Where it gives
/// others, the ideal times of the profile do not fit it: that is warned of.
base::Result<cluster::Cluster> with_profiled_bandwidths(const cluster::Cluster& cluster,
                                                        const profile::CommProfile& comm, Context& context);

/// What a path of the user's turned out to hold; at least one of the two.
struct AnyProfile {
  std::optional<profile::ProfileSet> profiles;
  std::optional<profile::LayerGraph> graph;
};

/// A Yoke profile folder, a JABAS/IIDP config JSON, or a PipeDream graph.txt, told apart by what is in it.
base::Result<AnyProfile> load_any_profile(const std::string& path, Context& context);

}  // namespace yoke::cli
