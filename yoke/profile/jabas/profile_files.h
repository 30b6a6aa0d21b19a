// The files in the profile folders of JABAS and IIDP, one parser and one writer for each kind. Times are milliseconds,
// the local batch size (lbs) is in samples, `num_models` is the number of virtual workers (vsw) on one GPU.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/profile/profile.h"

namespace yoke::profile::jabas {

/// <comp_profile_dir>/<lbs>/<host>/*.json
struct ComputeFile {
  std::string model;
  std::string gpu_type;
  int lbs = 1;
  ComputeSample sample;
  std::vector<std::string> ignored;  // keys that nothing uses
};
base::Result<ComputeFile> parse_compute_file(std::string_view text, const std::string& file);
std::string to_compute_json(const ComputeFile& compute);

/// <memory_profile_dir>/<lbs>/<host>/max_memory_profile_info.json
struct MemoryFile {
  std::string gpu_type;
  int lbs = 1;
  int max_vsw = 1;
  std::optional<base::Bytes> total_memory;
  std::vector<std::string> ignored;
};
base::Result<MemoryFile> parse_memory_file(std::string_view text, const std::string& file);
std::string to_memory_json(const MemoryFile& memory);

/// <bucket_profile_dir>/*.json
struct BucketFile {
  std::string model;
  BucketProfile buckets;
  std::vector<std::string> ignored;
};
base::Result<BucketFile> parse_bucket_file(std::string_view text, const std::string& file);
std::string to_bucket_json(const BucketFile& buckets);

/// <comm_profile_dir>/*.txt: lines `ideal,measured`.
base::Result<std::vector<CommPoint>> parse_comm_file(std::string_view text, const std::string& file);
std::string to_comm_text(const std::vector<CommPoint>& points);

}  // namespace yoke::profile::jabas
