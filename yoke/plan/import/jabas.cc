#include "yoke/plan/import/jabas.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/cluster/jabas_cluster.h"
#include "yoke/profile/jabas/folders.h"

namespace yoke::plan {
namespace {

using base::join_path;
using base::Result;
using profile::jabas::Config;
using profile::jabas::Folders;

void append(std::vector<std::string>* notes, const std::vector<std::string>& more, std::string_view suffix = "") {
  for (const auto& line : more) notes->push_back(fmt::format("{}{}", line, suffix));
}

Result<Folders> find_folders(const Config& config, const std::string& config_path) {
  const auto find = [&](const std::string& path, const char* key) {
    return profile::jabas::resolve_path(path, config_path, key);
  };
  Folders folders;
  YOKE_TRY(folders.memory, find(config.memory_profile_dir, "memory_profile_dir"));
  YOKE_TRY(folders.compute, find(config.comp_profile_dir, "comp_profile_dir"));
  YOKE_TRY(folders.comm, find(config.comm_profile_dir, "comm_profile_dir"));
  YOKE_TRY(folders.bucket, find(config.bucket_profile_dir, "bucket_profile_dir"));
  return folders;
}

Result<cluster::Cluster> available(const cluster::Cluster& all, const Config& config, const std::string& config_path) {
  auto chosen = all.subset(config.available_servers);
  if (chosen.ok()) return chosen;
  return base::input_error(chosen.error().message, {.file = config_path, .field = "available_servers"});
}

}  // namespace

Result<JabasWorkspace> load_jabas(const std::string& config_path) {
  YOKE_TRY(const std::string config_text, base::read_file(config_path));
  YOKE_TRY(auto config, profile::jabas::parse_config(config_text, config_path));
  std::vector<std::string> notes;
  append(&notes, config.ignored, " is not used");

  YOKE_TRY(const std::string cluster_path,
           profile::jabas::resolve_path(config.config.gpu_cluster_info, config_path, "gpu_cluster_info"));
  YOKE_TRY(const std::string cluster_text, base::read_file(cluster_path));
  YOKE_TRY(const auto all, cluster::parse_jabas_cluster(cluster_text, cluster_path));
  append(&notes, all.ignored, " is not used");
  YOKE_TRY(cluster::Cluster cluster, available(all.cluster, config.config, config_path));
  std::vector<std::string> others;
  for (const auto& node : all.cluster.nodes()) {
    if (cluster.find(node.name) == nullptr) {
      others.push_back(node.name);
      notes.push_back(fmt::format("{}: {} is not an available server", cluster_path, node.name));
    }
  }

  YOKE_TRY(const Folders folders, find_folders(config.config, config_path));
  std::vector<profile::jabas::Server> servers;
  for (const auto& node : cluster.nodes()) servers.push_back({node.name, node.type});
  YOKE_TRY(auto profiles, profile::jabas::load_folders(folders, servers, others));
  append(&notes, profiles.notes);
  return JabasWorkspace{std::move(config.config), std::move(cluster), std::move(profiles.profiles), std::move(notes)};
}

base::Status save_jabas(const std::string& folder, const JabasWorkspace& workspace) {
  Config config = workspace.config;
  config.memory_profile_dir = "cluster_mem_profile_data";
  config.comp_profile_dir = "cluster_comp_profile_data";
  config.comm_profile_dir = "comm_profile_data";
  config.bucket_profile_dir = "bucket_profile_data";
  config.gpu_cluster_info = "cluster_info.json";
  const auto inside = [&](const std::string& name) { return join_path(folder, name); };
  YOKE_TRY(const std::string cluster, cluster::to_jabas_cluster(workspace.cluster));
  YOKE_CHECK(base::make_folder(folder));
  YOKE_CHECK(profile::jabas::save_folders({.memory = inside(config.memory_profile_dir),
                                           .compute = inside(config.comp_profile_dir),
                                           .comm = inside(config.comm_profile_dir),
                                           .bucket = inside(config.bucket_profile_dir)},
                                          workspace.profiles));
  YOKE_CHECK(base::publish_file(inside(config.gpu_cluster_info), cluster));
  return base::publish_file(inside("config.json"), profile::jabas::to_config_json(config));
}

}  // namespace yoke::plan
