// Data sets: samples by index. A data set turns the indices of one worker into the tensors the model's first block and
// the loss take. Random choices (crops, flips) come from the worker's own stream, so they do not depend on where or
// when the worker runs.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/base/rng.h"

namespace yoke::data {

/// One worker's samples: tensors by name, each with the samples as its first dimension ("x", "targets").
struct Batch {
  std::vector<std::pair<std::string, torch::Tensor>> tensors;
  std::int64_t samples = 0;
  std::int64_t skipped = 0;  // corrupt samples that were left out, if the data set is told to
};

struct DatasetInfo {
  std::string name;
  std::int64_t size = 0;
  std::vector<std::int64_t> input_shape;  // of one sample, as the model sees it
  std::int64_t classes = 0;
};

/// Immutable once opened; load() may be called from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const DatasetInfo& info() const = 0;
  /// Errors name the file. `draw` names the stream for augmentation; absent (evaluation): there is none.
  virtual base::Result<Batch> load(std::span<const std::int64_t> indices,
                                   const std::optional<base::StreamName>& draw) const = 0;
};

enum class Split { kTrain, kTest };
enum class Corrupt { kStop, kSkip };

struct DatasetOptions {
  std::string name;  // fashion-mnist, imagenet (any folder of class folders), synthetic
  std::string path;  // empty: where the data set's package puts it
  Split split = Split::kTrain;
  std::optional<std::int64_t> limit;
  std::vector<std::int64_t> shape;      // synthetic
  std::optional<std::int64_t> classes;  // synthetic
  std::int64_t image = 224;
  std::int64_t resize = 256;
  Corrupt corrupt = Corrupt::kStop;
};

/// Input error that says what is missing and how to get it.
base::Result<std::unique_ptr<Dataset>> open_dataset(const DatasetOptions& options);
std::vector<std::string> list_datasets();

}  // namespace yoke::data
