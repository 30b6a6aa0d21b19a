#include "yoke/profiler/folder.h"

#include <fmt/format.h>

#include <functional>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/profile/jabas/folders.h"
#include "yoke/profile/pipedream/graph_text.h"
#include "yoke/profile/profile_folder.h"
#include "yoke/profiler/chart.h"

namespace yoke::profiler {
namespace {

using base::join_path;

profile::jabas::Folders jabas_folders(const std::string& path) {
  return {.memory = join_path(path, "memory_profile_data"),
          .compute = join_path(path, "comp_profile_data"),
          .comm = join_path(path, "comm_profile_data"),
          .bucket = join_path(path, "bucket_profile_data")};
}

base::Error other(std::string_view what, const std::string& found, const std::string& expected, std::string_view advice,
                  const std::string& file) {
  return base::input_error(fmt::format("found a profile of the {} {}, expected {}; {}", what, base::quote(found, 200),
                                       base::quote(expected, 200), advice),
                           {.file = file, .field = std::string(what)});
}

std::string layer_chart(const std::string& title, const std::vector<std::string>& names, const std::string& unit,
                        const profile::LayerGraph& graph,
                        const std::function<std::vector<double>(const profile::Layer&)>& parts) {
  std::vector<Bar> bars;
  for (const auto& layer : graph.layers()) bars.push_back({.label = layer.id, .parts = parts(layer)});
  return bar_chart(title, names, unit, bars);
}

}  // namespace

base::Result<Folder> Folder::open(const std::string& path, const Identity& identity, bool again) {
  Folder folder(path, identity.model);
  folder.node_ = {.node = identity.node, .device_type = identity.device_type, .by_lbs = {}, .setup = identity.setup};
  if (base::exists(join_path(path, "nodes"))) {
    const auto before = profile::load_profiles(path);
    // A folder whose first profiling was interrupted before anything was found has no node yet.
    YOKE_TRY(const auto names, base::list_folder(join_path(path, "nodes")));
    if (!before.ok() && !names.empty()) return before.error();
    if (before.ok() && before->model != identity.model) {
      return other("model", before->model, identity.model, "keep one folder for each model", path);
    }
    const profile::NodeProfile* own = before.ok() ? before->find(identity.node) : nullptr;
    if (own != nullptr) {
      const std::string file = join_path(path, fmt::format("nodes/{}.json", identity.node));
      const bool same = own->device_type == identity.device_type && own->setup == identity.setup;
      if (!same && !again) {
        const std::string advice = "give another --out, or --again to replace it";
        if (own->device_type != identity.device_type) {
          return other("device_type", own->device_type, identity.device_type, advice, file);
        }
        return other("setup", own->setup, identity.setup, advice, file);
      }
      if (same) folder.node_.by_lbs = own->by_lbs;
    }
  }
  YOKE_CHECK(folder.save_node());
  return folder;
}

profile::ProfileSet Folder::set_of_node() const {
  return {.model = model_, .nodes = {node_}, .buckets = {}, .comm = {}};
}

base::Status Folder::save_node() const {
  YOKE_CHECK(profile::save_profiles(path_, set_of_node()));
  return profile::jabas::save_folders(jabas_folders(path_), set_of_node());
}

base::Status Folder::save_buckets(const profile::BucketProfile& buckets) const {
  profile::ProfileSet set{.model = model_, .nodes = {}, .buckets = buckets, .comm = {}};
  YOKE_CHECK(profile::save_profiles(path_, set));
  YOKE_CHECK(profile::jabas::save_folders(jabas_folders(path_), set));
  std::vector<Bar> bars;
  for (std::size_t i = 0; i < buckets.mebibytes.size(); ++i) {
    bars.push_back({.label = fmt::format("bucket {}", i), .parts = {buckets.mebibytes[i]}});
  }
  return base::publish_file(
      join_path(path_, "buckets.svg"),
      bar_chart(fmt::format("{}: gradient buckets in backward order", model_), {"gradients"}, "MiB", bars));
}

std::string Folder::layers_folder(int lbs) const {
  return join_path(path_, fmt::format("layers/{}/{}", node_.node, lbs));
}

base::Result<std::optional<profile::LayerGraph>> Folder::layers(int lbs) const {
  const std::string folder = layers_folder(lbs);
  if (!base::exists(join_path(folder, "layers.json"))) return std::optional<profile::LayerGraph>();
  YOKE_TRY(auto graph, profile::load_layers(folder));
  return std::optional(std::move(graph));
}

base::Status Folder::save_layers(int lbs, const profile::LayerGraph& graph, bool main) const {
  const std::string folder = layers_folder(lbs);
  YOKE_CHECK(base::make_folder(folder));
  constexpr double kMegabyte = 1e6;
  const auto chart = [&](const std::string& name, const std::string& text) {
    return base::publish_file(join_path(folder, name), text);
  };
  YOKE_CHECK(chart("graph.txt", profile::pipedream::to_graph_text(graph)));
  YOKE_CHECK(chart("times.svg", layer_chart(fmt::format("{}: time of {} samples on {}", model_, lbs, node_.node),
                                            {"forward", "backward"}, "ms", graph, [](const auto& layer) {
                                              return std::vector{layer.forward_ms, layer.backward_ms};
                                            })));
  YOKE_CHECK(chart("activations.svg", layer_chart(fmt::format("{}: what layers put out for {} samples", model_, lbs),
                                                  {"activations"}, "MB", graph, [&](const auto& layer) {
                                                    return std::vector{layer.activation_bytes() / kMegabyte};
                                                  })));
  YOKE_CHECK(chart("parameters.svg",
                   layer_chart(fmt::format("{}: parameters", model_), {"parameters"}, "MB", graph,
                               [&](const auto& layer) { return std::vector{layer.parameter_bytes / kMegabyte}; })));
  // Last: that the profile is there means that all is.
  YOKE_CHECK(profile::save_layers(folder, graph));
  return main ? profile::save_layers(path_, graph) : base::Status();
}

}  // namespace yoke::profiler
