#include <array>

#include "yoke/models/zoo/zoo.h"

namespace yoke::models::zoo {

namespace {

using torch::nn::Conv2dOptions;

constexpr std::array<std::int64_t, 4> kWidths = {64, 128, 256, 512};

enum class Kind { kBasic, kBottleneck };
struct Layout {
  Kind kind;
  std::array<int, 4> depths;  // residual blocks of each stage

  std::int64_t outputs(std::size_t stage) const { return kWidths[stage] * (kind == Kind::kBottleneck ? 4 : 1); }
};

Conv2dOptions convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1) {
  return Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false);
}

/// Its layers as a chain, plus what came in: as it was, or brought to the same shape by one more convolution.
class Residual : public Chain {
 public:
  Residual(Kind kind, std::int64_t in, std::int64_t width, std::int64_t out, std::int64_t stride) {
    if (kind == Kind::kBasic) {
      convolution("conv1", zoo::convolution(in, width, 3, stride), Init::kFanOut).batch_norm("bn1", width).relu();
      convolution("conv2", zoo::convolution(width, out, 3), Init::kFanOut).batch_norm("bn2", out);
    } else {
      convolution("conv1", zoo::convolution(in, width, 1), Init::kFanOut).batch_norm("bn1", width).relu();
      // The stride sits here and not in conv1: "v1.5", as torchvision has it.
      convolution("conv2", zoo::convolution(width, width, 3, stride), Init::kFanOut).batch_norm("bn2", width).relu();
      convolution("conv3", zoo::convolution(width, out, 1), Init::kFanOut).batch_norm("bn3", out);
    }
    if (stride == 1 && in == out) return;
    downsample_ = register_module("downsample", std::make_shared<Chain>());
    downsample_->convolution("0", zoo::convolution(in, out, 1, stride), Init::kFanOut).batch_norm("1", out);
  }

  void forward(Flow& flow, const Pass& pass) override {
    const torch::Tensor in = flow.take("x");
    torch::Tensor out = run(in, pass);
    out.add_(downsample_ ? downsample_->run(in, pass) : in).relu_();
    flow.set("x", std::move(out));
  }

 private:
  std::shared_ptr<Chain> downsample_;
};

base::Result<Architecture> make(const std::string& name, const Layout& layout, const ModelOptions& options) {
  YOKE_CHECK(check_options(name, options, Dropout::kNone));
  YOKE_TRY(const Image image, image_of(name, options, {}, 1));
  const std::int64_t channels = image.channels, classes = options.classes;
  Architecture model{.name = name, .loss = cross_entropy};
  model.blocks.push_back(chain("stem", "", [=](Chain& c) {
    c.convolution("conv1", convolution(channels, 64, 7, 2), Init::kFanOut).batch_norm("bn1", 64).relu();
    c.max_pool(3, 2, 1);
  }));
  std::int64_t in = 64;
  for (std::size_t stage = 0; stage < layout.depths.size(); ++stage) {
    const std::int64_t out = layout.outputs(stage), width = kWidths[stage];
    for (int i = 0; i < layout.depths[stage]; ++i) {
      const std::string block = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      model.blocks.push_back({.name = block, .prefix = block, .make = [=, kind = layout.kind] {
                                return std::make_shared<Residual>(kind, in, width, out, stride);
                              }});
      in = out;
    }
  }
  model.blocks.push_back(chain("head", "", [=](Chain& c) { c.average_pool(1).flatten().linear("fc", in, classes); }));
  return model;
}

ModelInfo describe(const std::string& name, const std::string& summary, const Layout& layout) {
  return {.name = name, .summary = summary, .make = [=](const ModelOptions& options) {
            return make(name, layout, options);
          }};
}

}  // namespace

std::vector<ModelInfo> resnet() {
  return {describe("resnet18", "ResNet with 18 layers", {Kind::kBasic, {2, 2, 2, 2}}),
          describe("resnet34", "ResNet with 34 layers", {Kind::kBasic, {3, 4, 6, 3}}),
          describe("resnet50", "ResNet v1.5 with 50 layers", {Kind::kBottleneck, {3, 4, 6, 3}}),
          describe("resnet101", "ResNet v1.5 with 101 layers", {Kind::kBottleneck, {3, 4, 23, 3}})};
}

}  // namespace yoke::models::zoo
