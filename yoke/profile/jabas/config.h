// The config file of JABAS and of IIDP (JSON). IIDP's has the folders, the cluster and the servers; JABAS's has the
// batch bounds and the similarity target too, and may have the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/result.h"

namespace yoke::profile::jabas {

/// What the file says; absent optional keys stay absent, so that writing adds nothing. Paths are as written.
struct Config {
  std::string memory_profile_dir;
  std::string comp_profile_dir;
  std::string comm_profile_dir;
  std::string bucket_profile_dir;
  std::string gpu_cluster_info;
  std::vector<std::string> available_servers;  // at least one, each once

  // JABAS: all three or none.
  std::optional<std::int64_t> batch_size_lower_bound;  // samples
  std::optional<std::int64_t> batch_size_upper_bound;
  std::optional<double> similarity_target;  // cosine

  // JABAS, each optional; its default is in brackets.
  std::optional<double> batch_size_adjust_rate;            // [0.1] of the global batch
  std::optional<std::int64_t> batch_size_adjust_interval;  // [100] steps
  std::optional<int> resource_alloc_unit;                  // [4] GPUs, written "4gpu"
  std::vector<std::vector<std::string>> homo_servers;      // groups of servers with the same GPUs
  std::optional<bool> enable_adjust;                       // [true]; JABAS also writes "True" and "False"
  std::optional<std::string> metric;                       // ["similarity"], the only one

  bool operator==(const Config&) const = default;
};

struct ImportedConfig {
  Config config;
  std::vector<std::string> ignored;  // keys that nothing uses, one line each
};

base::Result<ImportedConfig> parse_config(std::string_view text, const std::string& file);
std::string to_config_json(const Config& config);

/// A path of a config file: as it is if that exists (so relative to the working directory), else relative to the
/// folder of the config file. Input error naming both places and the `key` if neither exists.
base::Result<std::string> resolve_path(const std::string& path, const std::string& config_file, const std::string& key);

}  // namespace yoke::profile::jabas
