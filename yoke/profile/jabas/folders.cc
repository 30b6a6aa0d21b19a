#include "yoke/profile/jabas/folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/profile/jabas/profile_files.h"

namespace yoke::profile::jabas {
namespace {

using base::input_error;
using base::join_path;
using base::quote;
using base::Result;
using base::Status;

constexpr const char* kMemoryFile = "max_memory_profile_info.json";

class FolderLoader {
 public:
  FolderLoader(const std::vector<Server>& servers, const std::vector<std::string>& others) : others_(others) {
    for (const auto& server : servers) {
      imported_.profiles.nodes.push_back({.node = server.name, .device_type = server.gpu_type});
    }
  }

  Result<ImportedProfiles> load(const Folders& folders) {
    YOKE_CHECK(walk(folders.memory, [this](auto&&... at) { return read_memory(at...); }));
    YOKE_CHECK(walk(folders.compute, [this](auto&&... at) { return read_compute(at...); }));
    YOKE_CHECK(check_complete(folders));
    YOKE_CHECK(read_comm(folders.comm));
    YOKE_CHECK(read_buckets(folders.bucket));
    YOKE_CHECK(validate(imported_.profiles, {.file = folders.compute}));
    return std::move(imported_);
  }

 private:
  using Visit = std::function<Status(const std::string& folder, int lbs, NodeProfile* node)>;

  void note(std::string text) { imported_.notes.push_back(std::move(text)); }
  void note_all(const std::vector<std::string>& keys) {
    for (const auto& key : keys) note(key + " is not used");
  }

  /// Calls `visit` for each <top>/<lbs>/<host> whose host is one of our servers.
  Status walk(const std::string& top, const Visit& visit) {
    YOKE_TRY(const auto sizes, base::list_folder(top));
    for (const auto& size : sizes) {
      const std::string size_folder = join_path(top, size);
      if (!base::is_folder(size_folder)) {
        note(fmt::format("{} is not a folder of profiles", size_folder));
        continue;
      }
      const auto lbs = base::parse_integer(size);
      if (!lbs.ok() || *lbs < 1 || *lbs > 1'000'000'000 || std::to_string(*lbs) != size) {
        return input_error(fmt::format("found the folder {}, expected a local batch size such as 32", quote(size)),
                           {.file = size_folder});
      }
      YOKE_TRY(const auto hosts, base::list_folder(size_folder));
      for (const auto& host : hosts) {
        const std::string host_folder = join_path(size_folder, host);
        NodeProfile* node = find_node(host);
        if (node == nullptr) {
          YOKE_CHECK(check_other(host, host_folder));
          continue;
        }
        YOKE_CHECK(visit(host_folder, static_cast<int>(*lbs), node));
      }
    }
    return {};
  }

  Status check_other(const std::string& host, const std::string& path) {
    if (!base::is_folder(path)) {
      note(fmt::format("{} is not a folder of profiles", path));
      return {};
    }
    if (std::find(others_.begin(), others_.end(), host) != others_.end()) {
      note(fmt::format("{} is not of an available server", path));
      return {};
    }
    std::vector<std::string> hosts = others_;
    for (const auto& node : imported_.profiles.nodes) hosts.push_back(node.node);
    return input_error(fmt::format("found profiles of the host {}, which the cluster does not have{}; rename or remove "
                                   "the folder, or add the host to the cluster",
                                   quote(host), base::did_you_mean(host, hosts)),
                       {.file = path});
  }

  NodeProfile* find_node(const std::string& host) {
    for (auto& node : imported_.profiles.nodes) {
      if (node.node == host) return &node;
    }
    return nullptr;
  }

  /// A file must be of the lbs its folder says and of the GPU that the cluster, or another file, says the node has.
  static Status check_origin(const std::string& file, int lbs, const std::string& gpu_type, int folder_lbs,
                             NodeProfile* node) {
    if (lbs != folder_lbs) {
      return input_error(fmt::format("found lbs {} in the folder of lbs {}", lbs, folder_lbs),
                         {.file = file, .field = "lbs"});
    }
    if (node->device_type.empty()) node->device_type = gpu_type;
    if (gpu_type != node->device_type) {
      return input_error(fmt::format("found {}, expected {}, which node {} has", quote(gpu_type),
                                     quote(node->device_type), quote(node->node)),
                         {.file = file, .field = "gpu_type"});
    }
    return {};
  }

  Status read_memory(const std::string& folder, int lbs, NodeProfile* node) {
    YOKE_TRY(const auto names, base::list_folder(folder));
    for (const auto& name : names) {
      if (name != kMemoryFile) note(fmt::format("{} is not a memory profile", join_path(folder, name)));
    }
    const std::string path = join_path(folder, kMemoryFile);
    YOKE_TRY(const std::string text, base::read_file(path));
    YOKE_TRY(const MemoryFile memory, parse_memory_file(text, path));
    YOKE_CHECK(check_origin(path, memory.lbs, memory.gpu_type, lbs, node));
    note_all(memory.ignored);
    LocalBatchProfile& measured = node->by_lbs[lbs];
    measured.max_vsw = memory.max_vsw;
    measured.total_memory = memory.total_memory;
    return {};
  }

  Status read_compute(const std::string& folder, int lbs, NodeProfile* node) {
    YOKE_TRY(const auto names, base::list_folder(folder));
    auto& samples = node->by_lbs[lbs].compute;
    for (const auto& name : names) {
      const std::string path = join_path(folder, name);
      if (!name.ends_with(".json")) {
        note(fmt::format("{} is not a compute profile", path));
        continue;
      }
      YOKE_TRY(const std::string text, base::read_file(path));
      YOKE_TRY(const ComputeFile compute, parse_compute_file(text, path));
      YOKE_CHECK(check_origin(path, compute.lbs, compute.gpu_type, lbs, node));
      note_all(compute.ignored);
      note_model(compute.model, path);
      const auto at = std::lower_bound(samples.begin(), samples.end(), compute.sample.vsw,
                                       [](const ComputeSample& sample, int vsw) { return sample.vsw < vsw; });
      if (at != samples.end() && at->vsw == compute.sample.vsw) {
        return input_error(fmt::format("found num_models {}, which another file of the folder has too", at->vsw),
                           {.file = path, .field = "num_models"});
      }
      samples.insert(at, compute.sample);
    }
    if (samples.empty()) {
      return input_error("found no compute profile, expected a .json file for each number of workers",
                         {.file = folder});
    }
    return {};
  }

  /// The solvers of JABAS never look at the model's name, so a second one is worth a word and no more.
  void note_model(const std::string& model, const std::string& path) {
    std::string& known = imported_.profiles.model;
    if (known.empty()) known = model;
    if (model != known) note(fmt::format("{} is of the model {}, others of {}", path, quote(model), quote(known)));
  }

  Status check_complete(const Folders& folders) {
    for (const auto& node : imported_.profiles.nodes) {
      bool has_memory = false;
      bool has_compute = false;
      for (const auto& [lbs, measured] : node.by_lbs) {
        has_memory |= measured.max_vsw.has_value();
        has_compute |= !measured.compute.empty();
        if (!measured.max_vsw) note(fmt::format("node {} has no memory profile of lbs {}", node.node, lbs));
        if (measured.compute.empty()) note(fmt::format("node {} has no compute profile of lbs {}", node.node, lbs));
      }
      if (!has_memory || !has_compute) {
        return input_error(fmt::format("found no profile of node {}, expected <lbs>/{}; profile it, or take it out of "
                                       "available_servers",
                                       quote(node.node), node.node),
                           {.file = has_memory ? folders.compute : folders.memory});
      }
    }
    return {};
  }

  Status read_comm(const std::string& folder) {
    YOKE_TRY(const auto names, base::list_folder(folder));
    for (const auto& name : names) {
      const bool intra = name.find("intra") != std::string::npos;
      const bool inter = name.find("inter") != std::string::npos;
      const std::string path = join_path(folder, name);
      if (!name.ends_with(".txt") || intra == inter) {
        note(fmt::format("{} is not an intra or inter profile", path));
        continue;
      }
      auto& points = intra ? imported_.profiles.comm.intra : imported_.profiles.comm.inter;
      if (!points.empty()) {
        return input_error(fmt::format("found a second {} profile, expected one", intra ? "intra" : "inter"),
                           {.file = path});
      }
      YOKE_TRY(const std::string text, base::read_file(path));
      YOKE_TRY(points, parse_comm_file(text, path));
    }
    const CommProfile& comm = imported_.profiles.comm;
    if (comm.intra.empty() && comm.inter.empty()) {
      return input_error("found no communication profile, expected *intra*.txt and *inter*.txt", {.file = folder});
    }
    if (comm.intra.empty()) note(fmt::format("{} has no intra profile", folder));
    if (comm.inter.empty()) note(fmt::format("{} has no inter profile", folder));
    return {};
  }

  Status read_buckets(const std::string& folder) {
    YOKE_TRY(const auto names, base::list_folder(folder));
    std::vector<std::string> paths;
    for (const auto& name : names) {
      const std::string path = join_path(folder, name);
      if (name.ends_with(".json")) {
        paths.push_back(path);
      } else {
        note(fmt::format("{} is not a bucket profile", path));
      }
    }
    if (paths.empty()) return input_error("found no bucket profile, expected a .json file", {.file = folder});
    for (std::size_t i = 0; i + 1 < paths.size(); ++i) {
      note(fmt::format("{} is not used: {} comes after it", paths[i], paths.back()));
    }
    YOKE_TRY(const std::string text, base::read_file(paths.back()));
    YOKE_TRY(BucketFile buckets, parse_bucket_file(text, paths.back()));
    note_all(buckets.ignored);
    note_model(buckets.model, paths.back());
    imported_.profiles.buckets = std::move(buckets.buckets);
    return {};
  }

  const std::vector<std::string> others_;
  ImportedProfiles imported_;
};

Status publish(const std::string& folder, const std::string& name, const std::string& content) {
  YOKE_CHECK(base::make_folder(folder));
  return base::publish_file(join_path(folder, name), content);
}

}  // namespace

Result<ImportedProfiles> load_folders(const Folders& folders, const std::vector<Server>& servers,
                                      const std::vector<std::string>& others) {
  return FolderLoader(servers, others).load(folders);
}

Status save_folders(const Folders& folders, const ProfileSet& profiles) {
  YOKE_CHECK(validate(profiles));
  const std::string model = base::is_plain_name(profiles.model) ? profiles.model : "model";
  for (const auto& node : profiles.nodes) {
    for (const auto& [lbs, measured] : node.by_lbs) {
      const std::string place = join_path(std::to_string(lbs), node.node);
      if (measured.max_vsw) {
        const MemoryFile memory{node.device_type, lbs, *measured.max_vsw, measured.total_memory, {}};
        YOKE_CHECK(publish(join_path(folders.memory, place), kMemoryFile, to_memory_json(memory)));
      }
      for (const auto& sample : measured.compute) {
        const ComputeFile compute{profiles.model, node.device_type, lbs, sample, {}};
        YOKE_CHECK(publish(join_path(folders.compute, place),
                           fmt::format("{}_{}_{}_comp_profile.json", model, lbs, sample.vsw),
                           to_compute_json(compute)));
      }
    }
  }
  const auto save_comm = [&](const std::vector<CommPoint>& points, const std::string& kind) -> Status {
    if (points.empty()) return {};
    return publish(folders.comm, kind + "_comm_profile_data.txt", to_comm_text(points));
  };
  YOKE_CHECK(save_comm(profiles.comm.intra, "intra"));
  YOKE_CHECK(save_comm(profiles.comm.inter, "inter"));
  if (profiles.buckets.mebibytes.empty()) return {};
  return publish(folders.bucket, model + "_bucket_size_profile.json",
                 to_bucket_json({profiles.model, profiles.buckets, {}}));
}

}  // namespace yoke::profile::jabas
