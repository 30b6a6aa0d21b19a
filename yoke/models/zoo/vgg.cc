#include <array>

#include "yoke/models/zoo/zoo.h"

namespace yoke::models::zoo {

namespace {

// Convolutions of each group; a pool that halves the image ends a group.
using Groups = std::array<int, 5>;
constexpr std::array<std::int64_t, 5> kWidths = {64, 128, 256, 512, 512};
constexpr std::int64_t kLeastSide = 32;  // five halvings leave a pixel

base::Result<Architecture> make(const std::string& name, const Groups& groups, const ModelOptions& options) {
  YOKE_CHECK(check_options(name, options, Dropout::kHas));
  YOKE_TRY(const Image image, image_of(name, options, {}, kLeastSide));
  const double dropout = options.dropout < 0 ? 0.5 : options.dropout;
  const std::int64_t classes = options.classes;
  Architecture model{.name = name, .loss = cross_entropy};

  std::int64_t in = image.channels;
  int index = 0;  // in torchvision's list, where relu and pool count too
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const std::int64_t out = kWidths[group];
    for (int i = 0; i < groups[group]; ++i) {
      const bool ends_group = i + 1 == groups[group];
      const std::string layer = std::to_string(index);
      model.blocks.push_back(chain("features." + layer, "features", [=](Chain& c) {
        c.convolution(layer, torch::nn::Conv2dOptions(in, out, 3).padding(1), Init::kFanOut).relu();
        if (ends_group) c.max_pool(2, 2);
      }));
      in = out;
      index += ends_group ? 3 : 2;
    }
  }
  model.blocks.push_back(chain("classifier.0", "classifier", [=](Chain& c) {
    c.average_pool(7).flatten().linear("0", 512 * 7 * 7, 4096, Init::kNarrow).relu().dropout(dropout);
  }));
  model.blocks.push_back(chain("classifier.3", "classifier",
                               [=](Chain& c) { c.linear("3", 4096, 4096, Init::kNarrow).relu().dropout(dropout); }));
  model.blocks.push_back(
      chain("classifier.6", "classifier", [=](Chain& c) { c.linear("6", 4096, classes, Init::kNarrow); }));
  return model;
}

ModelInfo describe(const std::string& name, const std::string& summary, const Groups& groups) {
  return {.name = name, .summary = summary, .make = [=](const ModelOptions& options) {
            return make(name, groups, options);
          }};
}

}  // namespace

std::vector<ModelInfo> vgg() {
  return {describe("vgg11", "VGG with 11 layers, without batch norm", {1, 1, 2, 2, 2}),
          describe("vgg16", "VGG with 16 layers, without batch norm", {2, 2, 3, 3, 3})};
}

}  // namespace yoke::models::zoo
