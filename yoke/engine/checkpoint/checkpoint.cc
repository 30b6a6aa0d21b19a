#include "yoke/engine/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/engine/checkpoint/manifest.h"
#include "yoke/engine/checkpoint/tensor_file.h"
#include "yoke/engine/checkpoint/unfinished.h"

namespace yoke::engine {
namespace {

namespace fs = std::filesystem;
using base::input_error;
using Holds = ManifestFile::Holds;

constexpr std::string_view kPrefix = "step-";
/// Behind the name of a checkpoint that makes room for another of its step. It is whole, and used until that is there.
constexpr std::string_view kReplaced = ".replaced";
/// How often the list is read anew because another process removed what was being read.
constexpr int kTries = 10;
/// In one message about damaged checkpoints; the warnings tell all.
constexpr std::size_t kMostNamed = 4;

std::string name_of_step(std::int64_t step) {
  return fmt::format("{}{:09}", kPrefix, step);
}

struct Found {
  std::string path;
  std::int64_t step = 0;
  bool replaced = false;
};

std::optional<Found> recognise(const std::string& folder, std::string_view name) {
  Found found{.path = base::join_path(folder, name)};
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  found.replaced = name.ends_with(kReplaced);
  if (found.replaced) name.remove_suffix(kReplaced.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), found.step);
  if (error != std::errc() || end != name.data() + name.size() || name.starts_with('-')) return std::nullopt;
  return found;
}

/// All checkpoints of the folder, whole or not: the newest first, and of one step the newer first.
base::Result<std::vector<Found>> find_checkpoints(const std::string& folder) {
  std::vector<Found> all;
  YOKE_TRY(const auto names, base::list_folder(folder));
  for (const auto& name : names) {
    if (auto found = recognise(folder, name); found && base::is_folder(found->path)) all.push_back(*found);
  }
  std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
    return a.step != b.step ? a.step > b.step : a.replaced < b.replaced;
  });
  return all;
}

std::int64_t bytes_of(const NamedTensors& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

/// The tensors in their order, cut where a file would get too large.
std::vector<NamedTensors> split(const NamedTensors& tensors, std::int64_t file_bytes) {
  std::vector<NamedTensors> parts(1);
  std::int64_t bytes = 0;
  for (const auto& named : tensors) {
    const auto own = static_cast<std::int64_t>(named.second.nbytes());
    if (bytes + own > file_bytes && !parts.back().empty()) {
      parts.emplace_back();
      bytes = 0;
    }
    parts.back().push_back(named);
    bytes += own;
  }
  return parts;
}

base::Status write_files(const std::string& folder, const Checkpoint& checkpoint, std::int64_t file_bytes) {
  Manifest manifest{.meta = checkpoint.meta};
  const auto write = [&](const std::string& stem, Holds holds, const NamedTensors& tensors) -> base::Status {
    const auto parts = split(tensors, file_bytes);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string part = parts.size() == 1 ? "" : fmt::format("-{:05}-of-{:05}", i + 1, parts.size());
      const std::string name = fmt::format("{}{}.safetensors", stem, part);
      YOKE_TRY(FileChecksums sums, write_tensor_file(base::join_path(folder, name), parts[i], {{"format", "pt"}}));
      manifest.files.push_back({.name = name, .holds = holds, .sums = std::move(sums)});
    }
    return {};
  };
  YOKE_CHECK(write("weights", Holds::kWeights, checkpoint.weights));
  YOKE_CHECK(write("optimizer", Holds::kOptimizer, checkpoint.optimizer));
  return base::publish_file(base::join_path(folder, kManifestName), to_json(manifest));
}

/// Moves the finished folder to its name. At every moment a whole checkpoint of the step is there if one was before.
base::Status move_into_place(const std::string& folder, const std::string& finished, const std::string& place) {
  const std::string replaced = place + std::string(kReplaced);
  const bool replaces = base::exists(place);
  if (replaces) {
    if (base::exists(replaced)) discard(folder, replaced);
    if (::rename(place.c_str(), replaced.c_str()) != 0) return base::cannot_write(place, errno);
  }
  if (::rename(finished.c_str(), place.c_str()) != 0) {
    const int number = errno;
    if (replaces) (void)::rename(replaced.c_str(), place.c_str());
    return base::cannot_write(place, number);
  }
  base::sync_folder(folder);
  return {};
}

/// Removes what a checkpoint of `step` makes needless.
void prune(const std::string& folder, std::int64_t step, std::int64_t keep) {
  const auto all = find_checkpoints(folder);
  if (!all.ok()) return;
  std::int64_t kept = 0;
  std::int64_t last = -1;
  for (const auto& found : *all) {
    if (found.step > step) continue;
    const bool again = found.step == last;
    last = found.step;
    if (again || kept == keep) {
      discard(folder, found.path);
    } else {
      ++kept;
    }
  }
}

/// Adds what there is to know about a disk that is full. What was written in vain is gone already.
base::Error save_failure(base::Error error, const std::string& folder, const Checkpoint& checkpoint) {
  if (error.kind != base::ErrorKind::kPeer) return error;
  std::error_code code;
  const auto space = fs::space(folder, code);
  const std::int64_t needed = bytes_of(checkpoint.weights) + bytes_of(checkpoint.optimizer);
  const std::string free =
      code ? "" : base::format(base::Bytes{static_cast<std::int64_t>(space.available)}) + " are free, ";
  error.message += fmt::format(
      "; {}a checkpoint needs {}: make room there, or choose another folder; the older "
      "checkpoints are as they were",
      free, base::format(base::Bytes{needed}));
  return error;
}

/// The newest one that can be loaded, and what is wrong with the newer ones. nullopt: one was removed while it was
/// read.
struct Newest {
  std::optional<Checkpoint> checkpoint;
  std::vector<std::string> damaged;
};
base::Result<std::optional<Newest>> try_newest(const std::string& folder) {
  Newest newest;
  YOKE_TRY(const auto all, find_checkpoints(folder));
  for (const auto& found : all) {
    auto checkpoint = load_checkpoint(found.path);
    if (checkpoint.ok()) {
      newest.checkpoint = *std::move(checkpoint);
      break;
    }
    if (!base::exists(found.path)) return std::optional<Newest>();
    newest.damaged.push_back(checkpoint.error().to_string());
  }
  return std::optional(std::move(newest));
}

}  // namespace

base::Result<std::string> save_checkpoint(const std::string& folder, const Checkpoint& checkpoint, std::int64_t keep,
                                          std::int64_t file_bytes) {
  const std::int64_t step = checkpoint.meta.cursor.step;
  base::require(keep >= 1 && step >= 0, fmt::format("a checkpoint of step {} with keep {}", step, keep));
  YOKE_CHECK(base::make_folder(folder));
  remove_abandoned(folder);
  const auto unfinished = make_unfinished(folder);
  if (!unfinished.ok()) return save_failure(unfinished.error(), folder, checkpoint);
  const std::string place = base::join_path(folder, name_of_step(step));
  base::Status status = write_files(*unfinished, checkpoint, file_bytes);
  if (status.ok()) status = move_into_place(folder, *unfinished, place);
  if (!status.ok()) {
    std::error_code ignored;  // should it stay, a save of another process removes it
    fs::remove_all(*unfinished, ignored);
    base::Error error = status.error();
    // The temporary name of the folder means nothing to anybody.
    std::string& file = error.where.file;
    if (file.starts_with(*unfinished)) file = place + file.substr(unfinished->size());
    return save_failure(std::move(error), folder, checkpoint);
  }
  prune(folder, step, keep);
  return place;
}

base::Result<Checkpoint> load_checkpoint(const std::string& folder) {
  if (!base::is_folder(folder)) return input_error("found no folder, expected one with a checkpoint", {.file = folder});
  const std::string path = base::join_path(folder, kManifestName);
  if (!base::exists(path)) {
    return input_error(
        fmt::format("found no {}, expected it in every checkpoint: this one is not whole", kManifestName),
        {.file = folder});
  }
  YOKE_TRY(const std::string text, base::read_file(path));
  YOKE_CHECK(check_seal(text, path));
  YOKE_TRY(Manifest manifest, parse_manifest(text, path));
  Checkpoint checkpoint{.meta = std::move(manifest.meta)};
  for (const auto& file : manifest.files) {
    YOKE_TRY(NamedTensors tensors, read_tensor_file(base::join_path(folder, file.name), &file.sums));
    NamedTensors& all = file.holds == Holds::kWeights ? checkpoint.weights : checkpoint.optimizer;
    std::move(tensors.begin(), tensors.end(), std::back_inserter(all));
  }
  return checkpoint;
}

base::Result<std::optional<Checkpoint>> load_newest(const std::string& folder, std::vector<std::string>& warnings) {
  if (!base::exists(folder)) return std::optional<Checkpoint>();
  std::optional<Newest> newest;
  for (int tries = 0; !newest; ++tries) {
    if (tries == kTries) {
      return base::peer_error("checkpoints are removed faster than they can be read; try again", {.file = folder});
    }
    YOKE_TRY(newest, try_newest(folder));
  }
  const auto& damaged = newest->damaged;
  warnings.insert(warnings.end(), damaged.begin(), damaged.end());
  if (newest->checkpoint || damaged.empty()) return std::move(newest->checkpoint);
  std::string named;
  for (std::size_t i = 0; i < std::min(damaged.size(), kMostNamed); ++i) named += (i == 0 ? "" : "; ") + damaged[i];
  if (damaged.size() > kMostNamed) named += fmt::format("; and {} more", damaged.size() - kMostNamed);
  return input_error(fmt::format("no checkpoint is whole: {}; remove the folder to start anew", named),
                     {.file = folder});
}

base::Status check_model(const CheckpointMeta& meta, std::string_view model, const std::string& folder) {
  if (meta.model == model) return {};
  return input_error(
      fmt::format("found a checkpoint of the model {}, expected one of {}; choose another run folder, or "
                  "the job that wrote it",
                  base::quote(meta.model), base::quote(model)),
      {.file = folder});
}

}  // namespace yoke::engine
