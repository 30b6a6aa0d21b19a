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
  /// Errors name the file. `draw` names the stream for augmentation; absent (evaluation): there is none. A sample's
  /// augmentation depends on `draw` and on the sample's place in `indices` only. Corrupt samples are left out and
  /// counted if the data set is told to; a batch of nothing else has 0 samples, and tensors with a first dimension of
  /// 0. Precondition: 0 <= index < size. Keeps to the calling thread.
  virtual base::Result<Batch> load(std::span<const std::int64_t> indices,
                                   const std::optional<base::StreamName>& draw) const = 0;
};

enum class Split { kTrain, kTest };
enum class Corrupt { kStop, kSkip };

struct DatasetOptions {
  std::string name;  // one of list_datasets()
  std::string path;  // empty: where the data set's package puts it
  Split split = Split::kTrain;
  std::optional<std::int64_t> limit;    // the first so many samples; synthetic: how many there are
  std::vector<std::int64_t> shape;      // of a synthetic sample; of any other data set: what it is expected to have
  std::optional<std::int64_t> classes;  // likewise
  std::int64_t image = 224;             // image folders: side of the images that come out
  std::int64_t resize = 256;            // image folders: shorter side before the middle is cut out for evaluation
  Corrupt corrupt = Corrupt::kStop;     // image folders: what cannot be decoded
};

/// Opens `fashion-mnist`, `image-folder` (also named `imagenet`) or `synthetic`. Input error that says what is missing
/// and how to get it, or what was found where `shape` or `classes` expect something else.
base::Result<std::unique_ptr<Dataset>> open_dataset(const DatasetOptions& options);
/// Whether there is such a split at all; one that is there may still be unusable. Only image folders may lack one.
bool has_split(const DatasetOptions& options);
std::vector<std::string> list_datasets();

/// For data sets: throws base::Failure unless the index is one of theirs.
void check_index(std::int64_t index, const DatasetInfo& info);

}  // namespace yoke::data
