#include "yoke/data/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "yoke/base/text.h"
#include "yoke/data/fashion_mnist.h"
#include "yoke/data/image_folder.h"
#include "yoke/data/synthetic.h"

namespace yoke::data {
namespace {

using base::input_error;
using Open = base::Result<std::unique_ptr<Dataset>> (*)(const DatasetOptions&);

struct Entry {
  const char* name;
  Open open;
};
constexpr Entry kDatasets[] = {{"fashion-mnist", open_fashion_mnist},
                               {"image-folder", open_image_folder},
                               {"imagenet", open_image_folder},
                               {"synthetic", open_synthetic}};

}  // namespace

bool has_split(const DatasetOptions& options) {
  const bool images = options.name == "image-folder" || options.name == "imagenet";
  return !images || has_image_split(options.path, options.split);
}

base::Result<std::unique_ptr<Dataset>> open_dataset(const DatasetOptions& options) {
  if (options.limit && *options.limit < 1) {
    return input_error(fmt::format("found {}, expected at least 1 sample", *options.limit), {.field = "data.limit"});
  }
  for (const Entry& entry : kDatasets) {
    if (options.name != entry.name) continue;
    YOKE_TRY(auto dataset, entry.open(options));
    const DatasetInfo& info = dataset->info();
    if (options.classes && *options.classes != info.classes) {
      return input_error(fmt::format("{} has {} classes, expected {}; set the classes of the model and of the data "
                                     "alike",
                                     info.name, info.classes, *options.classes),
                         {.file = options.path, .field = "data.classes"});
    }
    if (!options.shape.empty() && options.shape != info.input_shape) {
      return input_error(fmt::format("{} has samples of {}, expected {}", info.name, fmt::join(info.input_shape, " x "),
                                     fmt::join(options.shape, " x ")),
                         {.file = options.path, .field = "data.shape"});
    }
    return dataset;
  }
  const std::vector<std::string> names = list_datasets();
  return input_error(fmt::format("found {}, expected {}{}", base::quote(options.name), base::join_words(names, "or"),
                                 base::did_you_mean(options.name, names)),
                     {.field = "data.name"});
}

std::vector<std::string> list_datasets() {
  std::vector<std::string> names;
  for (const Entry& entry : kDatasets) names.emplace_back(entry.name);
  return names;
}

void check_index(std::int64_t index, const DatasetInfo& info) {
  if (index >= 0 && index < info.size) return;
  base::require(false, fmt::format("sample {} of {} in {}", index, info.size, info.name));
}

}  // namespace yoke::data
