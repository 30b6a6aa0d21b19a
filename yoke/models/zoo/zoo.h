// What the models of the zoo are made of, and the list of them. Internal to this module.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/models/model.h"

namespace yoke::models {

/// Any TorchScript file; see docs/models.md.
ModelInfo torchscript();

namespace zoo {

ModelInfo mlp();
ModelInfo small_cnn();
ModelInfo alexnet();
std::vector<ModelInfo> vgg();
std::vector<ModelInfo> resnet();
/// Blocks of a layer profile, which wait the profiled times and move tensors of the profiled sizes.
ModelInfo replay();

/// How the weights of a layer start.
enum class Init {
  kTorch,   // as torch::nn does
  kFanOut,  // normal, scaled by what goes out of the layer; biases 0
  kNarrow,  // normal with deviation 0.01; biases 0
};

/// Layers one after another. Built by calls in forward order; layers with parameters are registered under their names.
class Chain : public Block {
 public:
  Chain& convolution(const std::string& name, const torch::nn::Conv2dOptions& options, Init init = Init::kTorch);
  Chain& batch_norm(const std::string& name, std::int64_t channels);
  Chain& linear(const std::string& name, std::int64_t inputs, std::int64_t outputs, Init init = Init::kTorch);
  /// In place, so never the first layer.
  Chain& relu();
  Chain& max_pool(std::int64_t side, std::int64_t stride, std::int64_t padding = 0);
  /// Averages so that an image of side x side is left.
  Chain& average_pool(std::int64_t side);
  Chain& flatten();
  Chain& dropout(double probability);

  torch::Tensor run(torch::Tensor x, const Pass& pass);
  void forward(Flow& flow, const Pass& pass) override;

 private:
  std::vector<std::function<torch::Tensor(const torch::Tensor&, const Pass&)>> steps_;
};

/// A BlockSpec of a Chain that `fill` fills.
BlockSpec chain(std::string name, std::string prefix, std::function<void(Chain&)> fill);

/// Images as [channels, height, width].
struct Image {
  std::int64_t channels = 3;
  std::int64_t height = 224;
  std::int64_t width = 224;
};

enum class Dropout { kNone, kHas };

/// What all models of the zoo refuse: no classes, a path, a dropout that is no probability or that the model lacks.
base::Status check_options(std::string_view model, const ModelOptions& options, Dropout dropout);

/// The images that the options ask for, else `own`. Input error if they are no images or smaller than `least_side`.
base::Result<Image> image_of(std::string_view model, const ModelOptions& options, const Image& own,
                             std::int64_t least_side);

}  // namespace zoo
}  // namespace yoke::models
