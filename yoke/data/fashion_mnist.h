// Fashion-MNIST: 28 x 28 grey images of ten kinds of clothes, as the Debian package dataset-fashion-mnist has them.
// Unpacked once and kept as bytes (47 MB); a sample is f32 [1, 28, 28], normalised by the mean and deviation of the
// training images. There is no augmentation.
#pragma once

#include <memory>

#include "yoke/base/result.h"
#include "yoke/data/dataset.h"

namespace yoke::data {

base::Result<std::unique_ptr<Dataset>> open_fashion_mnist(const DatasetOptions& options);

}  // namespace yoke::data
