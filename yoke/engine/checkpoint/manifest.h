// The manifest of a checkpoint: what it is, and a checksum of everything in its files, so that damage can be named. It
// is written last and seals itself: its last line is the SHA-256 of all before. docs/formats/checkpoint.md
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/engine/checkpoint/meta.h"

namespace yoke::engine {

inline constexpr const char* kManifestName = "manifest.json";

/// Every byte of a safetensors file is under one of these sums.
struct FileChecksums {
  std::int64_t bytes = 0;                                    // of the whole file
  std::string header;                                        // of the length and the text in front of the tensors
  std::vector<std::pair<std::string, std::string>> tensors;  // name and sum of each
  bool operator==(const FileChecksums&) const = default;
};

struct ManifestFile {
  enum class Holds { kWeights, kOptimizer };

  std::string name;  // within the checkpoint's folder
  Holds holds = Holds::kWeights;
  FileChecksums sums;
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  CheckpointMeta meta;
  std::vector<ManifestFile> files;
  bool operator==(const Manifest&) const = default;
};

/// The text of the file, sealed.
std::string to_json(const Manifest& manifest);
/// Input error that says so if the seal is broken: some byte of the text is not as it was written.
base::Status check_seal(std::string_view text, const std::string& file);
/// What the text says, whether or not its seal is good. Input errors name line and field.
base::Result<Manifest> parse_manifest(std::string_view text, const std::string& file);

}  // namespace yoke::engine
