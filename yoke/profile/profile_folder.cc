#include "yoke/profile/profile_folder.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/profile/pipedream/graph_text.h"

namespace yoke::profile {
namespace {

using base::input_error;
using base::join_path;
using base::Result;
using base::Status;

constexpr const char* kNodes = "nodes";
constexpr const char* kBuckets = "buckets.json";
constexpr const char* kComm = "comm.json";
constexpr const char* kLayers = "layers.json";
constexpr std::string_view kSuffix = ".json";

Status check_model(const std::string& model, const std::string& expected, const std::string& path) {
  if (model == expected) return {};
  return input_error(fmt::format("found the model {}, expected {}, which the other files are of; keep one folder for "
                                 "each model",
                                 base::quote(model), base::quote(expected)),
                     {.file = path, .field = "model"});
}

Result<NodeFile> load_node(const std::string& path, const std::string& name) {
  YOKE_TRY(const std::string text, base::read_file(path));
  YOKE_TRY(NodeFile node, parse_node_file(text, path));
  if (node.profile.node + std::string(kSuffix) != name) {
    return input_error(fmt::format("found the node {} in the file {}, expected them to agree",
                                   base::quote(node.profile.node), base::quote(name)),
                       {.file = path, .field = "node"});
  }
  return node;
}

}  // namespace

Result<ProfileSet> load_profiles(const std::string& folder) {
  const std::string nodes_folder = join_path(folder, kNodes);
  if (!base::exists(nodes_folder)) {
    YOKE_TRY(const auto content, base::list_folder(folder));
    return input_error(fmt::format("found {} files and folders but no folder `{}`, expected a profile folder, as `yoke "
                                   "import` makes them",
                                   content.size(), kNodes),
                       {.file = folder});
  }
  YOKE_TRY(const auto names, base::list_folder(nodes_folder));
  ProfileSet profiles;
  for (const auto& name : names) {
    const std::string path = join_path(nodes_folder, name);
    if (!name.ends_with(kSuffix)) {
      return input_error("found a file that is no node profile, expected only <node>.json", {.file = path});
    }
    YOKE_TRY(NodeFile node, load_node(path, name));
    if (profiles.nodes.empty()) profiles.model = node.model;
    YOKE_CHECK(check_model(node.model, profiles.model, path));
    profiles.nodes.push_back(std::move(node.profile));
  }
  if (profiles.nodes.empty()) {
    return input_error("found no node profile, expected <node>.json; profile a node first", {.file = nodes_folder});
  }
  if (const std::string path = join_path(folder, kBuckets); base::exists(path)) {
    YOKE_TRY(const std::string text, base::read_file(path));
    YOKE_TRY(BucketsFile buckets, parse_buckets_file(text, path));
    YOKE_CHECK(check_model(buckets.model, profiles.model, path));
    profiles.buckets = std::move(buckets.buckets);
  }
  YOKE_TRY(profiles.comm, load_comm(folder));
  YOKE_CHECK(validate(profiles, {.file = folder}));
  return profiles;
}

Status save_profiles(const std::string& folder, const ProfileSet& profiles) {
  YOKE_CHECK(validate(profiles));
  const std::string nodes_folder = join_path(folder, kNodes);
  YOKE_CHECK(base::make_folder(nodes_folder));
  for (const auto& node : profiles.nodes) {
    YOKE_CHECK(base::publish_file(join_path(nodes_folder, node.node + std::string(kSuffix)),
                                  to_node_json({profiles.model, node})));
  }
  if (!profiles.buckets.mebibytes.empty()) {
    YOKE_CHECK(base::publish_file(join_path(folder, kBuckets), to_buckets_json({profiles.model, profiles.buckets})));
  }
  return profiles.comm == CommProfile{} ? Status{} : save_comm(folder, profiles.comm);
}

Result<CommProfile> load_comm(const std::string& folder) {
  const std::string path = join_path(folder, kComm);
  if (!base::exists(path)) return CommProfile{};
  YOKE_TRY(const std::string text, base::read_file(path));
  return parse_comm_file(text, path);
}

Status save_comm(const std::string& folder, const CommProfile& comm) {
  YOKE_CHECK(validate(comm));
  YOKE_CHECK(base::make_folder(folder));
  return base::publish_file(join_path(folder, kComm), to_comm_json(comm));
}

Result<LayerGraph> load_layers(const std::string& folder) {
  const std::string path = join_path(folder, kLayers);
  YOKE_TRY(const std::string text, base::read_file(path));
  return parse_layers_file(text, path);
}

Status save_layers(const std::string& folder, const LayerGraph& graph) {
  YOKE_CHECK(base::make_folder(folder));
  return base::publish_file(join_path(folder, kLayers), to_layers_json(graph));
}

base::Result<LayerGraph> load_layer_graph(const std::string& path) {
  if (base::is_folder(path)) return load_layers(path);
  YOKE_TRY(const std::string text, base::read_file(path));
  if (base::trim(text).starts_with('{')) return parse_layers_file(text, path);
  return pipedream::parse_graph_text(text, path);
}

}  // namespace yoke::profile
