// Checkpoints: everything that training needs to go on, in files that other programs can read (safetensors + JSON). A
// folder `checkpoints/` holds one folder for each, named by its step; a manifest, written last, makes it valid. All
// tensors have logical names, so a checkpoint fits any cluster shape. docs/formats/checkpoint.md
//
// A process may die at any moment: what is found afterwards is the last good checkpoint, whole.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/data/sampler.h"

namespace yoke::engine {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// One change of the batch, for the history.
struct BatchChange {
  std::int64_t step = 0;
  std::int64_t gbs = 0;
  std::int64_t lbs = 0;
  bool operator==(const BatchChange&) const = default;
};

struct CheckpointMeta {
  std::string model;  // its name; one of another model is refused by it
  data::Cursor cursor;
  std::uint64_t seed = 0;
  std::int64_t updates = 0;  // optimizer steps so far
  double train_loss = 0;     // of the last step
  std::vector<BatchChange> batches;
  bool operator==(const CheckpointMeta&) const = default;
};

/// Tensors are CPU, contiguous; f32, f64, f16, bf16, i64, i32, u8 or bool.
struct Checkpoint {
  CheckpointMeta meta;
  NamedTensors weights;    // parameters and buffers by full name
  NamedTensors optimizer;  // `<state>.<parameter>`, e.g. `momentum.layer1.0.conv1.weight`
};

/// Writes one and then removes the oldest beyond `keep`. Returns its folder. On failure (a full disk) the older ones
/// are untouched and nothing half-written stays.
base::Result<std::string> save_checkpoint(const std::string& folder, const Checkpoint& checkpoint, std::int64_t keep);

/// The newest checkpoint that is whole; nullopt if there is none. What is damaged (a flipped bit, a missing file) is
/// named in `warnings` and the one before it is taken; if all are damaged, an error that names them.
base::Result<std::optional<Checkpoint>> load_newest(const std::string& folder, std::vector<std::string>& warnings);
/// This one, e.g. `run/checkpoints/step-000500`. A damaged one is an input error that names the file and the tensor.
base::Result<Checkpoint> load_checkpoint(const std::string& folder);

/// A safetensors file. Reading checks the header against the file's size, bounds and overlaps.
base::Status write_safetensors(const std::string& path, const NamedTensors& tensors,
                               const std::vector<std::pair<std::string, std::string>>& metadata = {});
base::Result<NamedTensors> read_safetensors(const std::string& path);

/// Of all weights in the order of their names: what result.json tells, the same for equal weights on any cluster shape.
std::string weights_sha256(const NamedTensors& weights);

}  // namespace yoke::engine
