// Checkpoints: everything that training needs to go on, in files that other programs can read (safetensors + JSON). A
// folder `checkpoints/` holds one folder for each, named by its step; a manifest, written last, makes it valid. All
// tensors have logical names, so a checkpoint fits any cluster shape. docs/formats/checkpoint.md
//
// A process may die at any moment: what is found afterwards is the last good checkpoint, whole. One thread of one
// process saves into a folder at a time; any number may read from it meanwhile.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/engine/checkpoint/meta.h"

namespace yoke::engine {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// Tensors are CPU, contiguous; f32, f64, f16, bf16, i64, i32, u8 or bool.
struct Checkpoint {
  CheckpointMeta meta;
  NamedTensors weights;    // parameters and buffers by full name
  NamedTensors optimizer;  // `<state>.<parameter>`, e.g. `momentum.layer1.0.conv1.weight`
};

/// File systems and programs that stop at 4 GB can hold every file but that of a larger tensor.
inline constexpr std::int64_t kCheckpointFileBytes = 4'000'000'000;

/// Writes one, named by the step of its cursor, and then removes the oldest before it beyond `keep`. Returns its
/// folder. One of the same step is replaced; those of later steps stay. On failure the others are untouched and nothing
/// half-written stays: kPeer for a full disk, kInput for a folder that cannot be written, or a tensor that the format
/// cannot hold. What cannot be removed is tried again by the next save. Also removes what saves of this host that died
/// have left. Weights and state are cut into files of at most `file_bytes`, but for larger tensors.
/// Precondition: keep >= 1.
base::Result<std::string> save_checkpoint(const std::string& folder, const Checkpoint& checkpoint, std::int64_t keep,
                                          std::int64_t file_bytes = kCheckpointFileBytes);

/// The newest checkpoint that is whole; nullopt if there is none. What is damaged (a flipped bit, a missing file) is
/// named in `warnings` and the one before it is taken; if all are damaged, an error that names them.
base::Result<std::optional<Checkpoint>> load_newest(const std::string& folder, std::vector<std::string>& warnings);
/// This one, e.g. `run/checkpoints/step-000000500`. A damaged one is an input error that names the file and the tensor.
base::Result<Checkpoint> load_checkpoint(const std::string& folder);

/// Input error if the checkpoint is of another model than the one that is to go on; `folder` is for the message.
base::Status check_model(const CheckpointMeta& meta, std::string_view model, const std::string& folder);

/// A safetensors file, published whole or not at all. Reading checks the header against the file's size, bounds and
/// overlaps, and keeps the order of the names.
base::Status write_safetensors(const std::string& path, const NamedTensors& tensors,
                               const std::vector<std::pair<std::string, std::string>>& metadata = {});
base::Result<NamedTensors> read_safetensors(const std::string& path);

/// Of all weights in the order of their names: what result.json tells, the same for equal weights on any cluster shape.
/// For each tensor the line `<name>`, the line `<type> <d0>,<d1>,...` and its bytes: docs/formats/checkpoint.md
std::string weights_sha256(const NamedTensors& weights);

}  // namespace yoke::engine
