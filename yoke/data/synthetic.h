// Made-up samples of any shape, for benchmarks and tests: normally distributed numbers and a class, both a function of
// the split and the index alone. They are copied out of a small pool, so they never limit what is measured. There is
// nothing to learn in them.
#pragma once

#include <memory>

#include "yoke/base/result.h"
#include "yoke/data/dataset.h"

namespace yoke::data {

/// 1024 samples for training and 256 for testing, of shape [3, image, image] in 1000 classes, unless told otherwise.
base::Result<std::unique_ptr<Dataset>> open_synthetic(const DatasetOptions& options);

}  // namespace yoke::data
