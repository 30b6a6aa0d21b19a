#include "yoke/cli/inputs.h"

#include <fmt/format.h>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cluster/cluster_file.h"
#include "yoke/plan/import/jabas.h"
#include "yoke/profile/pipedream/graph_text.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {

void InputOptions::declare(Arguments& command) {
  command.option("--config", config, "JABAS or IIDP config JSON: cluster and profiles in one");
  command.option("--cluster", cluster, "cluster file, JABAS cluster_info JSON or MPI hostfile");
  command.option("--profiles", profiles, "Yoke profile folder");
}

base::Result<Inputs> load_inputs(const InputOptions& options, Context& context) {
  const bool own = !options.cluster.empty() || !options.profiles.empty();
  if (options.config.empty() == !own) {
    return option_error(own ? "--config" : "--cluster",
                        "expected either --config FILE, or --cluster FILE with --profiles FOLDER");
  }
  if (!options.config.empty()) {
    YOKE_TRY(plan::JabasWorkspace workspace, plan::load_jabas(options.config));
    for (const auto& note : workspace.notes) context.log.info("{}", note);
    return Inputs{std::move(workspace.cluster), std::move(workspace.profiles)};
  }
  if (options.cluster.empty()) return option_error("--cluster", "found none, expected a file beside --profiles");
  if (options.profiles.empty()) return option_error("--profiles", "found none, expected a folder beside --cluster");
  YOKE_TRY(cluster::Cluster cluster, cluster::load_cluster(options.cluster));
  YOKE_TRY(profile::ProfileSet profiles, profile::load_profiles(options.profiles));
  YOKE_TRY(cluster, with_profiled_bandwidths(cluster, profiles.comm, context));
  return Inputs{std::move(cluster), std::move(profiles)};
}

base::Result<cluster::Cluster> with_profiled_bandwidths(const cluster::Cluster& cluster,
                                                        const profile::CommProfile& comm, Context& context) {
  std::vector<cluster::Node> nodes = cluster.nodes();
  for (auto& node : nodes) {
    const auto fill = [&](std::string_view key, std::optional<base::Bandwidth>& given,
                          const std::optional<base::Bandwidth>& profiled) {
      if (!profiled) return;
      if (!given) given = profiled;
      const double ratio = given->bytes_per_s / profiled->bytes_per_s;
      if (ratio > 0.99 && ratio < 1.01) return;
      context.log.warning(
          "node {} has an {} of {}, but comm.json was profiled for {}: predicted all-reduces are off by "
          "the ratio",
          node.name, key, base::format(*given), base::format(*profiled));
    };
    if (node.devices > 1) fill("intra_bandwidth", node.intra_bandwidth, comm.intra_bandwidth);
    if (nodes.size() > 1) fill("inter_bandwidth", node.inter_bandwidth, comm.inter_bandwidth);
  }
  return cluster::Cluster::make(std::move(nodes));
}

base::Result<AnyProfile> load_any_profile(const std::string& given, Context& context) {
  // What `yoke import` made holds its profiles one folder down.
  const std::string inner = base::join_path(given, "profiles");
  const std::string path = base::is_folder(inner) ? inner : given;
  AnyProfile found;
  if (base::is_folder(path)) {
    if (base::exists(base::join_path(path, "layers.json"))) {
      YOKE_TRY(found.graph, profile::load_layers(path));
    }
    if (!found.graph || base::is_folder(base::join_path(path, "nodes"))) {
      YOKE_TRY(found.profiles, profile::load_profiles(path));
    }
    return found;
  }
  YOKE_TRY(const std::string text, base::read_file(path));
  if (!base::trim(text).starts_with('{')) {
    YOKE_TRY(found.graph, profile::pipedream::parse_graph_text(text, path));
    return found;
  }
  if (text.find("yoke-layers") != std::string::npos) {
    YOKE_TRY(found.graph, profile::parse_layers_file(text, path));
    return found;
  }
  if (text.find("\"yoke-") != std::string::npos) {
    return base::input_error(
        "found a file of Yoke's that is no layer graph, expected a profile folder, a JABAS or IIDP "
        "config JSON, or a PipeDream graph.txt",
        {.file = path});
  }
  YOKE_TRY(plan::JabasWorkspace workspace, plan::load_jabas(path));
  for (const auto& note : workspace.notes) context.log.info("{}", note);
  found.profiles = std::move(workspace.profiles);
  return found;
}

}  // namespace yoke::cli
