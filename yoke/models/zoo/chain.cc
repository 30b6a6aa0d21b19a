#include <fmt/format.h>

#include "yoke/models/zoo/zoo.h"

namespace yoke::models::zoo {

namespace {

void initialise(torch::Tensor& weight, torch::Tensor& bias, Init init) {
  if (init == Init::kTorch) return;
  if (init == Init::kFanOut) {
    torch::nn::init::kaiming_normal_(weight, 0, torch::kFanOut, torch::kReLU);
  } else {
    torch::nn::init::normal_(weight, 0, 0.01);
  }
  if (bias.defined()) torch::nn::init::zeros_(bias);
}

torch::Tensor normalise(torch::nn::BatchNorm2dImpl& layer, const torch::Tensor& x, const Pass& pass) {
  if (pass.training) {
    // The variance of one value is not a number, and would stay in the running variance for good.
    if (x.numel() == x.size(1)) {
      throw base::Failure(base::input_error(
          "batch norm cannot train on one value per channel: use a local batch of 2 or more, or larger images"));
    }
    layer.num_batches_tracked.add_(1);
  }
  return torch::batch_norm(x, layer.weight, layer.bias, layer.running_mean, layer.running_var, pass.training,
                           *layer.options.momentum(), layer.options.eps(), torch::globalContext().userEnabledCuDNN());
}

torch::Tensor drop(const torch::Tensor& x, double probability, const Pass& pass) {
  if (!pass.training || probability == 0) return x;
  const double keep = 1 - probability;
  torch::Tensor mask = torch::empty_like(x, torch::TensorOptions().requires_grad(false));
  if (pass.generator) {
    mask.bernoulli_(keep, *pass.generator);
  } else {
    mask.bernoulli_(keep);
  }
  return x * mask.div_(keep);
}

}  // namespace

Chain& Chain::convolution(const std::string& name, const torch::nn::Conv2dOptions& options, Init init) {
  torch::nn::Conv2d layer = register_module(name, torch::nn::Conv2d(options));
  initialise(layer->weight, layer->bias, init);
  steps_.push_back([layer](const torch::Tensor& x, const Pass&) mutable { return layer->forward(x); });
  return *this;
}

Chain& Chain::batch_norm(const std::string& name, std::int64_t channels) {
  torch::nn::BatchNorm2d layer = register_module(name, torch::nn::BatchNorm2d(channels));
  steps_.push_back([layer](const torch::Tensor& x, const Pass& pass) mutable { return normalise(*layer, x, pass); });
  return *this;
}

Chain& Chain::linear(const std::string& name, std::int64_t inputs, std::int64_t outputs, Init init) {
  torch::nn::Linear layer = register_module(name, torch::nn::Linear(inputs, outputs));
  initialise(layer->weight, layer->bias, init);
  steps_.push_back([layer](const torch::Tensor& x, const Pass&) mutable { return layer->forward(x); });
  return *this;
}

Chain& Chain::relu() {
  steps_.push_back([](const torch::Tensor& x, const Pass&) { return x.relu_(); });
  return *this;
}

Chain& Chain::max_pool(std::int64_t side, std::int64_t stride, std::int64_t padding) {
  steps_.push_back([=](const torch::Tensor& x, const Pass&) { return torch::max_pool2d(x, side, stride, padding); });
  return *this;
}

Chain& Chain::average_pool(std::int64_t side) {
  steps_.push_back([=](const torch::Tensor& x, const Pass&) { return torch::adaptive_avg_pool2d(x, {side, side}); });
  return *this;
}

Chain& Chain::flatten() {
  steps_.push_back([](const torch::Tensor& x, const Pass&) { return x.flatten(1); });
  return *this;
}

Chain& Chain::dropout(double probability) {
  steps_.push_back([=](const torch::Tensor& x, const Pass& pass) { return drop(x, probability, pass); });
  return *this;
}

torch::Tensor Chain::run(torch::Tensor x, const Pass& pass) {
  for (const auto& step : steps_) x = step(x, pass);
  return x;
}

void Chain::forward(Flow& flow, const Pass& pass) {
  flow.set("x", run(flow.take("x"), pass));
}

BlockSpec chain(std::string name, std::string prefix, std::function<void(Chain&)> fill) {
  return {.name = std::move(name), .prefix = std::move(prefix), .make = [fill = std::move(fill)] {
            auto block = std::make_shared<Chain>();
            fill(*block);
            return block;
          }};
}

}  // namespace yoke::models::zoo
