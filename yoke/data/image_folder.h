// Images in folders named by their class, in ImageNet's layout: path/train/<class>/*.jpg for training,
// path/val/<class>/ (or path/test/<class>/) for evaluation; .jpg, .jpeg and .png in any case, other files are left
// alone. Class i is the i-th folder in the order of the names' bytes, as in torchvision's ImageFolder, and so are the
// files of a class.
//
// A sample is f32 [3, image, image], normalised by ImageNet's mean and deviation: a random part, mirrored or not, where
// there is a stream to draw from; else the middle (resample.h). Opening reads the folders, not the files.
#pragma once

#include <memory>

#include "yoke/base/result.h"
#include "yoke/data/dataset.h"

namespace yoke::data {

base::Result<std::unique_ptr<Dataset>> open_image_folder(const DatasetOptions& options);
bool has_image_split(const std::string& path, Split split);

}  // namespace yoke::data
