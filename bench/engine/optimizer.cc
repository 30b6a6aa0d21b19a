// What an update costs: the fused pass over flat buckets against libtorch's own C++ optimizers on the same parameters,
// in turns. Prints one JSON object.
//
//   bench_optimizer [--rounds N]
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "yoke/base/json.h"
#include "yoke/engine/optimizer/optimizer.h"
#include "yoke/plan/buckets.h"

namespace {

using namespace yoke;
using plan::OptimizerName;
using plan::OptimizerSpec;

/// The shapes of a ResNet-50: 161 tensors, 25.6 million elements.
std::vector<std::vector<std::int64_t>> resnet50_shapes() {
  std::vector<std::vector<std::int64_t>> shapes;
  const auto conv = [&](std::int64_t out, std::int64_t in, std::int64_t side) {
    shapes.push_back({out, in, side, side});
    shapes.push_back({out});  // norm: weight and bias
    shapes.push_back({out});
  };
  conv(64, 3, 7);
  std::int64_t in = 64;
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t width = 64 << stage;
    for (int block = 0; block < blocks[stage]; ++block) {
      conv(width, in, 1);
      conv(width, width, 3);
      conv(4 * width, width, 1);
      if (block == 0) conv(4 * width, in, 1);
      in = 4 * width;
    }
  }
  shapes.push_back({1000, 2048});
  shapes.push_back({1000});
  return shapes;
}

/// Parameters as tensors of their own, each with a gradient: what torch's optimizers take.
std::vector<torch::Tensor> single_tensors() {
  std::vector<torch::Tensor> tensors;
  for (const auto& shape : resnet50_shapes()) {
    auto tensor = torch::randn(shape).mul_(0.1).set_requires_grad(true);
    tensor.mutable_grad() = torch::randn(shape).mul_(0.01);
    tensors.push_back(tensor);
  }
  return tensors;
}

/// The same in buckets, cut as the engine cuts them.
std::vector<engine::FlatBucket> flat_buckets(const OptimizerSpec& spec) {
  const auto shapes = resnet50_shapes();
  std::vector<plan::Parameter> parameters;
  for (const auto& shape : shapes) {
    parameters.push_back({.name = shape.size() > 1 ? "weight" : "bias", .elements = c10::multiply_integers(shape)});
  }
  std::vector<engine::FlatBucket> buckets;
  const auto cuts = plan::cut_into_buckets(parameters).value();
  for (const auto& cut : cuts) {
    engine::FlatBucket bucket{.weights = torch::zeros({cut.elements}), .gradients = torch::zeros({cut.elements})};
    for (const auto& slot : cut.slots) {
      const auto dimensions = static_cast<std::int64_t>(shapes[slot.parameter].size());
      bucket.segments.push_back({.name = parameters[slot.parameter].name,
                                 .begin = slot.offset,
                                 .count = slot.elements,
                                 .decay = engine::decays(spec, parameters[slot.parameter].name, dimensions)});
      bucket.weights.narrow(0, slot.offset, slot.elements).normal_(0, 0.1);
      bucket.gradients.narrow(0, slot.offset, slot.elements).normal_(0, 0.01);
    }
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

struct Contestant {
  std::string name;
  std::function<void()> step;
  std::vector<double> milliseconds = {};
};

Contestant fused(const OptimizerSpec& spec) {
  auto buckets = flat_buckets(spec);
  const std::size_t count = buckets.size();
  const std::shared_ptr<engine::Optimizer> optimizer = engine::make_optimizer(spec, std::move(buckets));
  auto step = std::make_shared<std::int64_t>(0);
  return {"fused", [=] {
            ++*step;
            for (std::size_t i = 0; i < count; ++i) {
              optimizer->update(i, {.lr = spec.lr, .scale = 0.5, .step = *step});
            }
          }};
}

/// In torch's favour: its optimizers cannot scale the gradient, and the pass that would is left out; and decay goes to
/// all parameters, which spares a second group.
Contestant by_torch(const std::function<std::shared_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>& make) {
  const auto tensors = single_tensors();
  const auto optimizer = make(tensors);
  return {"torch", [=] { optimizer->step(); }};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(Contestant& contestant) {
  const auto start = std::chrono::steady_clock::now();
  contestant.step();
  contestant.milliseconds.push_back(
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
}

struct Row {
  std::string name;
  double bytes_per_element;  // that the fused pass has to move
  OptimizerSpec spec;
  std::function<std::shared_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)> peer;  // null: torch has none
};

std::vector<Row> rows() {
  using namespace torch::optim;
  const auto adam = [](std::vector<torch::Tensor> p) {
    return std::make_shared<Adam>(std::move(p), AdamOptions(1e-3).weight_decay(1e-4));
  };
  const auto adamw = [](std::vector<torch::Tensor> p) {
    return std::make_shared<AdamW>(std::move(p), AdamWOptions(1e-3).weight_decay(1e-4));
  };
  return {
      {"sgd",
       12,
       {.lr = 0.1, .momentum = 0, .weight_decay = 1e-4},
       [](std::vector<torch::Tensor> p) {
         return std::make_shared<SGD>(std::move(p), SGDOptions(0.1).weight_decay(1e-4));
       }},
      {"sgd with momentum",
       20,
       {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4},
       [](std::vector<torch::Tensor> p) {
         return std::make_shared<SGD>(std::move(p), SGDOptions(0.1).momentum(0.9).weight_decay(1e-4));
       }},
      {"adam", 28, {.name = OptimizerName::kAdam, .lr = 1e-3, .weight_decay = 1e-4}, adam},
      {"adamw", 28, {.name = OptimizerName::kAdamW, .lr = 1e-3, .weight_decay = 1e-4}, adamw},
      {"lamb", 40, {.name = OptimizerName::kLamb, .lr = 1e-3, .weight_decay = 1e-4}, nullptr},
  };
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const int rounds = args.size() == 2 && args[0] == "--rounds" ? std::stoi(args[1]) : 15;
  double elements = 0;
  for (const auto& shape : resnet50_shapes()) elements += static_cast<double>(c10::multiply_integers(shape));
  base::Json results = base::Json::array();
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const auto& row : rows()) {
      std::vector<Contestant> contestants{fused(row.spec)};
      if (row.peer) contestants.push_back(by_torch(row.peer));
      for (auto& contestant : contestants) contestant.step();  // state and pages
      for (int round = 0; round < rounds; ++round) {
        for (auto& contestant : contestants) measure(contestant);
      }
      base::Json result{{"optimizer", row.name}, {"threads", threads}};
      for (const auto& contestant : contestants) {
        result[contestant.name + "_ms"] = median(contestant.milliseconds);
      }
      const double fused_ms = median(contestants[0].milliseconds);
      result["fused_gigabytes_per_second"] = elements * row.bytes_per_element / fused_ms / 1e6;
      if (row.peer) result["ratio"] = median(contestants[1].milliseconds) / fused_ms;
      results.push_back(std::move(result));
    }
  }
  std::cout << base::Json{{"benchmark", "optimizer"},
                          {"tensors", resnet50_shapes().size()},
                          {"elements", elements},
                          {"rounds", rounds},
                          {"rows", results}}
                   .dump(1)
            << std::endl;
  return 0;
}
