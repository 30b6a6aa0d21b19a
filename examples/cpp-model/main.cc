// One's own model in C++: a list of blocks under a name, and all of Yoke's commands around it. Every block can end up
// on another device, so what one hands to the next travels by name in the flow.
#include <iostream>
#include <memory>

#include "yoke/cli/command.h"
#include "yoke/models/model.h"

namespace {

using yoke::models::Architecture;
using yoke::models::Block;
using yoke::models::Flow;
using yoke::models::ModelOptions;
using yoke::models::Pass;

/// Cuts the picture into patches and makes a vector of each.
class Patches final : public Block {
 public:
  Patches(std::int64_t channels, std::int64_t patch, std::int64_t width)
      : embed_(register_module("embed",
                               torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, width, patch).stride(patch)))) {}

  void forward(Flow& flow, const Pass& /*pass*/) override {
    flow.set("x", embed_->forward(flow.take("x")).flatten(2).transpose(1, 2));  // samples, patches, width
  }

 private:
  torch::nn::Conv2d embed_;
};

/// Mixes the patches, then the numbers of each, with a way around both.
class Mixer final : public Block {
 public:
  Mixer(std::int64_t patches, std::int64_t width)
      : norm_(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        across_(register_module("across", torch::nn::Linear(patches, patches))),
        within_(register_module("within", torch::nn::Linear(width, width))) {}

  void forward(Flow& flow, const Pass& /*pass*/) override {
    auto x = flow.take("x");
    x = x + across_->forward(norm_->forward(x).transpose(1, 2)).transpose(1, 2);
    flow.set("x", x + torch::relu(within_->forward(x)));
  }

 private:
  torch::nn::LayerNorm norm_;
  torch::nn::Linear across_;
  torch::nn::Linear within_;
};

class Head final : public Block {
 public:
  Head(std::int64_t width, std::int64_t classes) : out_(register_module("out", torch::nn::Linear(width, classes))) {}

  void forward(Flow& flow, const Pass& /*pass*/) override { flow.set("x", out_->forward(flow.take("x").mean(1))); }

 private:
  torch::nn::Linear out_;
};

yoke::base::Result<Architecture> make_tiny_mixer(const ModelOptions& options) {
  constexpr std::int64_t kPatch = 7;
  constexpr std::int64_t kWidth = 64;
  const auto shape = options.input_shape.empty() ? std::vector<std::int64_t>{1, 28, 28} : options.input_shape;
  if (shape.size() != 3 || shape[1] % kPatch != 0 || shape[2] % kPatch != 0) {
    return yoke::base::input_error("tiny_mixer takes pictures whose sides are multiples of 7");
  }
  const std::int64_t patches = (shape[1] / kPatch) * (shape[2] / kPatch);
  const std::int64_t classes = options.classes;
  Architecture model{.name = "tiny_mixer", .loss = yoke::models::cross_entropy};
  model.blocks.push_back({.name = "patches", .prefix = "patches", .make = [=] {
                            return std::make_shared<Patches>(shape[0], kPatch, kWidth);
                          }});
  for (const char* name : {"mixer1", "mixer2"}) {
    model.blocks.push_back(
        {.name = name, .prefix = name, .make = [=] { return std::make_shared<Mixer>(patches, kWidth); }});
  }
  model.blocks.push_back(
      {.name = "head", .prefix = "head", .make = [=] { return std::make_shared<Head>(kWidth, classes); }});
  return model;
}

}  // namespace

int main(int argc, char** argv) {
  const auto added = yoke::models::register_model(
      {.name = "tiny_mixer", .summary = "a small mixer of patches", .make = make_tiny_mixer});
  if (!added.ok()) {
    std::cerr << added.error().to_string() << "\n";
    return 1;
  }
  return yoke::cli::run_yoke(argc, argv, std::cout, std::cerr, "/proc/self/exe");
}
