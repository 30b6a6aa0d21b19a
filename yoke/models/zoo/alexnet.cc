#include "yoke/models/zoo/zoo.h"

namespace yoke::models::zoo {

namespace {

using torch::nn::Conv2dOptions;

// The smallest image that leaves a pixel after the last pool.
constexpr std::int64_t kLeastSide = 63;

base::Result<Architecture> make(const ModelOptions& options) {
  YOKE_CHECK(check_options("alexnet", options, Dropout::kHas));
  YOKE_TRY(const Image image, image_of("alexnet", options, {}, kLeastSide));
  const double dropout = options.dropout < 0 ? 0.5 : options.dropout;
  const std::int64_t channels = image.channels, classes = options.classes;
  const auto convolution = [](std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t padding) {
    return Conv2dOptions(in, out, kernel).padding(padding);
  };
  Architecture model{.name = "alexnet", .loss = cross_entropy};
  const auto features = [&](const std::string& index, std::function<void(Chain&)> fill) {
    model.blocks.push_back(chain("features." + index, "features", std::move(fill)));
  };
  const auto classifier = [&](const std::string& index, std::function<void(Chain&)> fill) {
    model.blocks.push_back(chain("classifier." + index, "classifier", std::move(fill)));
  };
  features("0",
           [=](Chain& c) { c.convolution("0", convolution(channels, 64, 11, 2).stride(4)).relu().max_pool(3, 2); });
  features("3", [=](Chain& c) { c.convolution("3", convolution(64, 192, 5, 2)).relu().max_pool(3, 2); });
  features("6", [=](Chain& c) { c.convolution("6", convolution(192, 384, 3, 1)).relu(); });
  features("8", [=](Chain& c) { c.convolution("8", convolution(384, 256, 3, 1)).relu(); });
  features("10", [=](Chain& c) { c.convolution("10", convolution(256, 256, 3, 1)).relu().max_pool(3, 2); });
  classifier("1",
             [=](Chain& c) { c.average_pool(6).flatten().dropout(dropout).linear("1", 256 * 6 * 6, 4096).relu(); });
  classifier("4", [=](Chain& c) { c.dropout(dropout).linear("4", 4096, 4096).relu(); });
  classifier("6", [=](Chain& c) { c.linear("6", 4096, classes); });
  return model;
}

}  // namespace

ModelInfo alexnet() {
  return {.name = "alexnet", .summary = "AlexNet in torchvision's single-tower form", .make = make};
}

}  // namespace yoke::models::zoo
