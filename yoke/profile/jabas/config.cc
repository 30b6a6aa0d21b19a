#include "yoke/profile/jabas/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "yoke/base/document.h"
#include "yoke/base/files.h"
#include "yoke/base/json.h"
#include "yoke/base/text.h"

namespace yoke::profile::jabas {
namespace {

using base::Result;
using base::View;

constexpr std::string_view kUnitSuffix = "gpu";

std::vector<std::string> read_names(View list) {
  std::vector<std::string> names;
  for (View item : list.items()) names.push_back(item.text());
  return names;
}

std::vector<std::string> read_servers(View list) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (View item : list.items()) {
    names.push_back(item.text());
    if (!base::is_plain_name(names.back())) {
      item.fail(fmt::format("found {}, expected a server's name", base::quote(names.back())));
    }
    if (!seen.insert(names.back()).second) {
      item.fail(fmt::format("the server {} is given twice", base::quote(names.back())));
    }
  }
  if (names.empty()) list.fail("found no server, expected at least one");
  return names;
}

/// `[["a", "b"], ["c"]]`, or `["a", "b"]` for one group.
std::vector<std::vector<std::string>> read_groups(View list) {
  std::vector<std::vector<std::string>> groups;
  auto items = list.items();
  if (!items.empty() && items.front().is_text()) return {read_names(list)};
  for (View item : items) groups.push_back(read_names(item));
  return groups;
}

bool read_flag(View view) {
  if (!view.is_text()) return view.boolean();
  return view.one_of({"False", "True"}) == 1;
}

int read_unit(View view) {
  const std::string text = view.text();
  const std::string_view digits =
      std::string_view(text).substr(0, text.size() - std::min(text.size(), kUnitSuffix.size()));
  const auto unit = base::parse_integer(digits);
  if (!text.ends_with(kUnitSuffix) || !unit.ok() || *unit < 1 || *unit > 1'000'000) {
    view.fail(fmt::format("found {}, expected a number of GPUs such as \"4gpu\"", base::quote(text)));
    return 1;
  }
  return static_cast<int>(*unit);
}

void read_batch_bounds(View root, Config* config) {
  config->batch_size_lower_bound = root.field("batch_size_lower_bound").integer(base::kCount);
  View upper = root.field("batch_size_upper_bound");
  config->batch_size_upper_bound = upper.integer(base::kCount);
  if (*config->batch_size_upper_bound < *config->batch_size_lower_bound) {
    upper.fail(fmt::format("found {} below batch_size_lower_bound {}", *config->batch_size_upper_bound,
                           *config->batch_size_lower_bound));
  }
  config->similarity_target = root.field("similarity_target").number({.least = -1, .most = 1});
}

}  // namespace

Result<ImportedConfig> parse_config(std::string_view text, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(text, file));
  base::Reader reader(document);
  View root = reader.root();
  Config config;
  config.memory_profile_dir = root.field("memory_profile_dir").text();
  config.comp_profile_dir = root.field("comp_profile_dir").text();
  config.comm_profile_dir = root.field("comm_profile_dir").text();
  config.bucket_profile_dir = root.field("bucket_profile_dir").text();
  config.gpu_cluster_info = root.field("gpu_cluster_info").text();
  config.available_servers = read_servers(root.field("available_servers"));
  const auto is_bound = [&](const char* key) { return root.has(key); };
  if (is_bound("batch_size_lower_bound") || is_bound("batch_size_upper_bound") || is_bound("similarity_target")) {
    read_batch_bounds(root, &config);
  }
  if (auto rate = root.find("batch_size_adjust_rate")) {
    config.batch_size_adjust_rate = rate->number({.least = 0, .most = 1, .least_excluded = true});
  }
  if (auto interval = root.find("batch_size_adjust_interval")) {
    config.batch_size_adjust_interval = interval->integer(base::kCount);
  }
  if (auto unit = root.find("resource_alloc_unit")) config.resource_alloc_unit = read_unit(*unit);
  if (auto groups = root.find("homo_servers")) config.homo_servers = read_groups(*groups);
  if (auto enable = root.find("enable_adjust")) config.enable_adjust = read_flag(*enable);
  if (auto metric = root.find("metric")) {
    metric->one_of({"similarity"});
    config.metric = "similarity";
  }
  ImportedConfig imported{std::move(config), {}};
  for (const auto& key : root.unread()) imported.ignored.push_back(fmt::format("{}: {}", file, base::quote(key)));
  if (!reader.ok()) return reader.error();
  return imported;
}

std::string to_config_json(const Config& config) {
  base::Json json{{"memory_profile_dir", config.memory_profile_dir},
                  {"comp_profile_dir", config.comp_profile_dir},
                  {"comm_profile_dir", config.comm_profile_dir},
                  {"bucket_profile_dir", config.bucket_profile_dir},
                  {"gpu_cluster_info", config.gpu_cluster_info}};
  if (config.batch_size_lower_bound) json["batch_size_lower_bound"] = *config.batch_size_lower_bound;
  if (config.batch_size_upper_bound) json["batch_size_upper_bound"] = *config.batch_size_upper_bound;
  if (config.similarity_target) json["similarity_target"] = *config.similarity_target;
  if (config.batch_size_adjust_rate) json["batch_size_adjust_rate"] = *config.batch_size_adjust_rate;
  if (config.batch_size_adjust_interval) json["batch_size_adjust_interval"] = *config.batch_size_adjust_interval;
  if (config.resource_alloc_unit) {
    json["resource_alloc_unit"] = fmt::format("{}{}", *config.resource_alloc_unit, kUnitSuffix);
  }
  if (!config.homo_servers.empty()) json["homo_servers"] = config.homo_servers;
  if (config.enable_adjust) json["enable_adjust"] = *config.enable_adjust;
  if (config.metric) json["metric"] = *config.metric;
  json["available_servers"] = config.available_servers;
  return json.dump(2) + "\n";
}

Result<std::string> resolve_path(const std::string& path, const std::string& config_file, const std::string& key) {
  const auto exists = [](const std::string& candidate) {
    return base::is_file(candidate) || base::is_folder(candidate);
  };
  const std::string beside = base::join_path(base::parent_folder(config_file), path);
  for (const auto& candidate : {path, beside}) {
    if (!path.empty() && exists(candidate)) return candidate;
  }
  const std::string places = beside == path
                                 ? base::quote(path, 200)
                                 : fmt::format("{} nor {}", base::quote(path, 200), base::quote(beside, 200));
  return base::input_error(
      fmt::format("there is no {}; expected a path from the working folder or the config file's", places),
      {.file = config_file, .field = key});
}

}  // namespace yoke::profile::jabas
