#include "yoke/cli/profile_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "yoke/base/document.h"
#include "yoke/base/files.h"
#include "yoke/base/json.h"
#include "yoke/base/sha256.h"
#include "yoke/base/text.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using base::Result;
using base::Status;

constexpr int kDeepest = 16;
constexpr std::string_view kUnnamedNode = "localhost";

/// A relative path whose parts are plain names: it cannot lead out of a folder.
bool is_safe(const std::string& name) {
  const auto parts = base::split(name, "/");
  return parts.size() <= kDeepest &&
         std::ranges::all_of(parts, [](std::string_view part) { return base::is_plain_name(part); });
}

/// As base::sha256() writes them.
bool is_sum(std::string_view text) {
  constexpr std::size_t kDigits = 64;
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Status read_into(const std::string& folder, const std::string& prefix, std::int64_t& left, FileContents& contents) {
  YOKE_TRY(const auto names, base::list_folder(folder));
  for (const auto& name : names) {
    const std::string path = base::join_path(folder, name);
    const std::string relative = prefix + name;
    if (!is_safe(relative)) {
      return base::input_error(
          fmt::format("found {}, expected names without blanks and commas, {} folders deep at most; move it elsewhere",
                      base::quote(relative), kDeepest),
          {.file = folder});
    }
    if (base::is_folder(path)) {
      YOKE_CHECK(read_into(path, relative + "/", left, contents));
      continue;
    }
    YOKE_TRY(std::string content, base::read_file(path));
    left -= static_cast<std::int64_t>(content.size());
    if (left < 0 || contents.size() >= kMostSyncFiles) {
      return base::input_error(fmt::format("found more than {} bytes or {} files, expected the profiles of one model; "
                                           "is this the right folder?",
                                           kMostSyncBytes, kMostSyncFiles),
                               {.file = folder});
    }
    contents.emplace(relative, std::move(content));
  }
  return {};
}

/// The model that one of Yoke's own files is of, empty where it does not say.
Result<std::string> model_of(const std::string& name, const std::string& content, const std::string& place) {
  if (name.starts_with("nodes/") && name.ends_with(".json")) {
    YOKE_TRY(const profile::NodeFile node, profile::parse_node_file(content, place));
    return node.model;
  }
  if (name == "buckets.json") {
    YOKE_TRY(const profile::BucketsFile buckets, profile::parse_buckets_file(content, place));
    return buckets.model;
  }
  if (name == "comm.json") YOKE_CHECK(profile::parse_comm_file(content, place));
  if (name == "layers.json") YOKE_CHECK(profile::parse_layers_file(content, place));
  return std::string();
}

/// One file and where it is, for messages.
struct Found {
  const SyncFile* file;
  std::string place;
};

base::Error models_differ(const Found& one, const Found& other) {
  return base::input_error(
      fmt::format(
          "found the model {} in {} ({}, sha256 {}) and the model {} in {} ({}, sha256 {}), expected one model; "
          "keep one folder for each",
          base::quote(one.file->model), one.file->name, one.place, one.file->sha256, base::quote(other.file->model),
          other.file->name, other.place, other.file->sha256),
      {.file = other.file->name, .field = "model"});
}

Status check_models(const std::vector<Found>& files) {
  const Found* first = nullptr;
  for (const auto& found : files) {
    if (found.file->model.empty()) continue;
    if (first == nullptr) first = &found;
    if (found.file->model != first->file->model) return models_differ(*first, found);
  }
  return {};
}

/// What `yoke profile all` measures on every host, and a folder holds one of.
bool is_one_for_all(const std::string& name) {
  return name == "layers.json" || name == "comm.json" || name.starts_with("comm_profile_data/");
}

/// What a node is called that nobody named: two hosts then write the same files.
bool is_of_localhost(const std::string& name) {
  const auto parts = base::split(name, "/");
  return std::ranges::any_of(
      parts, [](std::string_view part) { return part == kUnnamedNode || part == std::string(kUnnamedNode) + ".json"; });
}

base::Error contents_differ(const Found& one, const Found& other) {
  const std::string advice =
      is_of_localhost(one.file->name)
          ? fmt::format(
                "both were profiled as the node `{}`: profile each with a name of its own, `yoke profile all "
                "--node NAME` (that of the cluster file) into a new --out",
                kUnnamedNode)
          : "remove one of them, or let one host win with --prefer";
  return base::input_error(fmt::format("found sha256 {} on {} and {} on {}, expected the same file on both; {}",
                                       one.file->sha256, one.place, other.file->sha256, other.place, advice),
                           {.file = other.file->name});
}

}  // namespace

Result<SyncFile> describe_file(const std::string& name, const std::string& content, const std::string& place) {
  SyncFile file{.name = name, .bytes = static_cast<std::int64_t>(content.size()), .sha256 = base::sha256(content)};
  YOKE_TRY(file.model, model_of(name, content, place));
  return file;
}

Result<FileContents> read_profile_files(const std::string& folder) {
  FileContents contents;
  std::int64_t left = kMostSyncBytes;
  YOKE_CHECK(read_into(folder, "", left, contents));
  if (contents.empty()) {
    return base::input_error("found no file, expected profiles; measure them first", {.file = folder});
  }
  std::vector<SyncFile> files;
  for (const auto& [name, content] : contents) {
    YOKE_TRY(SyncFile file, describe_file(name, content, base::join_path(folder, name)));
    files.push_back(std::move(file));
  }
  std::vector<Found> found;
  for (const auto& file : files) found.push_back({&file, folder});
  YOKE_CHECK(check_models(found));
  return contents;
}

std::string to_manifest(const std::vector<SyncFile>& files) {
  base::Json list = base::Json::array();
  for (const auto& file : files) {
    list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}, {"model", file.model}});
  }
  return list.dump();
}

Result<std::vector<SyncFile>> parse_manifest(const std::string& text, const std::string& host) {
  YOKE_TRY(const base::Document document, base::parse_json(text, "files of " + host));
  base::Reader reader(document);
  auto views = reader.root().items();
  if (views.size() > kMostSyncFiles) {
    reader.root().fail(fmt::format("found {} files, expected at most {}", views.size(), kMostSyncFiles));
  }
  std::vector<SyncFile> files;
  std::int64_t left = kMostSyncBytes;
  for (auto& view : views) {
    SyncFile file;
    file.name = view.field("name").text();
    if (!is_safe(file.name)) view.fail(fmt::format("found {}, expected a plain relative name", base::quote(file.name)));
    file.bytes = view.field("bytes").integer({.least = 0, .most = static_cast<double>(left)});
    left -= file.bytes;
    file.sha256 = view.field("sha256").text();
    if (!is_sum(file.sha256)) view.fail(fmt::format("found {}, expected a SHA-256 sum", base::quote(file.sha256)));
    file.model = view.field("model").text();
    view.done();
    files.push_back(std::move(file));
  }
  if (!reader.ok()) return reader.error();
  return files;
}

Result<std::vector<SharedFile>> unite(const std::vector<HostFiles>& hosts, std::optional<std::size_t> preferred) {
  std::map<std::string, SharedFile> united;
  std::vector<Found> found;
  std::set<std::string> wins;  // what the preferred host has: its own, whatever the others say
  if (preferred) {
    for (const auto& file : hosts.at(*preferred).files) wins.insert(file.name);
  }
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (const auto& file : hosts[host].files) {
      found.push_back({&file, "host " + hosts[host].host});
      const auto [known, added] = united.emplace(file.name, SharedFile{file, host});
      if (added || known->second.file.sha256 == file.sha256) continue;
      if (host == preferred) known->second = {file, host};
      if (wins.contains(file.name)) continue;
      if (!is_one_for_all(file.name)) {
        return contents_differ({&known->second.file, "host " + hosts[known->second.owner].host}, found.back());
      }
      known->second.chosen = true;
    }
  }
  YOKE_CHECK(check_models(found));
  std::vector<SharedFile> files;
  for (auto& [name, shared] : united) files.push_back(std::move(shared));
  for (std::size_t i = 1; i < files.size(); ++i) {
    if (!files[i].file.name.starts_with(files[i - 1].file.name + "/")) continue;
    return base::input_error(fmt::format("found a folder of that name on host {} and a file on host {}",
                                         hosts[files[i].owner].host, hosts[files[i - 1].owner].host),
                             {.file = files[i - 1].file.name});
  }
  return files;
}

Result<std::vector<std::string>> check_target(const std::string& folder, const std::vector<SharedFile>& files,
                                              bool replace) {
  std::vector<std::string> same;
  if (!base::exists(folder)) return same;
  std::int64_t left = kMostSyncBytes;
  FileContents present;
  YOKE_CHECK(read_into(folder, "", left, present));
  std::map<std::string, const SyncFile*> coming;
  for (const auto& shared : files) coming.emplace(shared.file.name, &shared.file);
  std::vector<SyncFile> staying;
  for (const auto& [name, content] : present) {
    const auto found = coming.find(name);
    if (found == coming.end()) {
      YOKE_TRY(SyncFile file, describe_file(name, content, base::join_path(folder, name)));
      staying.push_back(std::move(file));
      continue;
    }
    const std::string sum = base::sha256(content);
    if (sum == found->second->sha256) {
      same.push_back(name);
    } else if (!replace) {
      return base::input_error(fmt::format("found sha256 {} here, while the hosts have {}; remove the old file, or let "
                                           "--replace do that",
                                           sum, found->second->sha256),
                               {.file = base::join_path(folder, name)});
    }
  }
  std::vector<Found> found;
  for (const auto& shared : files) found.push_back({&shared.file, "from the hosts"});
  for (const auto& file : staying) found.push_back({&file, folder});
  YOKE_CHECK(check_models(found));
  return same;
}

Status check_writable(const std::string& folder) {
  std::filesystem::path at = std::filesystem::absolute(folder);
  while (!base::exists(at.string()) && at.has_relative_path()) at = at.parent_path();
  if (!base::is_folder(at.string())) {
    return base::input_error("found a file, expected a folder", {.file = at.string()});
  }
  if (::access(at.c_str(), W_OK | X_OK) != 0) return base::cannot_write(folder, errno);
  return {};
}

}  // namespace yoke::cli
