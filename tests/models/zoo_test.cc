#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/support/files.h"
#include "yoke/models/model.h"

namespace yoke::models {
namespace {

using yoke::testing::expect_input_error;

const std::vector<std::string> kZoo = {"mlp",      "small_cnn", "alexnet",  "vgg11",    "vgg16",
                                       "resnet18", "resnet34",  "resnet50", "resnet101"};

std::map<std::string, torch::Tensor> tensors_of(const Network& network) {
  std::map<std::string, torch::Tensor> all;
  for (const auto& tensors : {network.parameters(), network.buffers()}) {
    for (const NamedTensor& tensor : tensors) all[tensor.name] = tensor.tensor;
  }
  return all;
}

double deviation(const torch::Tensor& tensor) {
  return tensor.detach().std().item<double>();
}

TEST(Zoo, AnyNumberOfClasses) {
  for (const std::string& name : kZoo) {
    const Architecture model = make_model(name, {.classes = 37}).value();
    const Network last(model, {.first = model.blocks.size() - 1});
    const auto parameters = last.parameters();
    ASSERT_EQ(parameters.size(), 2U) << name;
    EXPECT_EQ(parameters[0].tensor.size(0), 37) << name;
    EXPECT_EQ(parameters[1].tensor.size(0), 37) << name;
  }
}

TEST(Zoo, RefusesOptionsThatMakeNoSense) {
  for (const std::string& name : kZoo) {
    SCOPED_TRACE(name);
    expect_input_error(make_model(name, {.classes = 0}), "classes: found 0 classes");
    expect_input_error(make_model(name, {.classes = 1'000'000'000}), "expected 1 to 10000000");
    expect_input_error(make_model(name, {.path = "a.ts"}), "path: found the path `a.ts`");
    expect_input_error(make_model(name, {.dropout = 1}), "found a dropout of 1, expected");
    expect_input_error(make_model(name, {.dropout = NAN}), "found a dropout of nan");
    expect_input_error(make_model(name, {.input_shape = {3, 0, 64}}), "input_shape: found samples of shape [3, 0, 64]");
    if (name != "mlp") expect_input_error(make_model(name, {.input_shape = {784}}), "[channels, height, width]");
  }
  expect_input_error(make_model("mlp", {.input_shape = {1 << 20, 1 << 20, 1 << 30}}), "input_shape");
  expect_input_error(make_model("alexnet", {.input_shape = {3, 62, 63}}), "of 63 to");
  expect_input_error(make_model("vgg16", {.input_shape = {3, 31, 32}}), "of 32 to");
  expect_input_error(make_model("resnet18", {.dropout = 0.1}), "has no dropout");
}

// The smallest images that are allowed do run, in grey as well.
TEST(Zoo, AdaptsToImages) {
  const auto run = [](const std::string& name, std::vector<std::int64_t> shape, std::size_t blocks) {
    SCOPED_TRACE(name);
    const Architecture model = make_model(name, {.classes = 4, .input_shape = shape}).value();
    Network network(model, {.last = std::min(blocks, model.blocks.size())});
    shape.insert(shape.begin(), 2);
    Flow flow({{"x", torch::randn(shape)}});
    network.forward(flow, Pass{.training = false});
    return flow.at("x").sizes().vec();
  };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(run("mlp", {5}, 9), (Shape{2, 4}));
  EXPECT_EQ(run("small_cnn", {3, 1, 1}, 9), (Shape{2, 4}));
  EXPECT_EQ(run("small_cnn", {1, 28, 28}, 9), (Shape{2, 4}));
  EXPECT_EQ(run("small_cnn", {2, 33, 30}, 9), (Shape{2, 4}));
  EXPECT_EQ(run("resnet18", {1, 28, 28}, 99), (Shape{2, 4}));
  EXPECT_EQ(run("resnet18", {1, 1, 1}, 99), (Shape{2, 4}));
  EXPECT_EQ(run("alexnet", {1, 63, 63}, 5), (Shape{2, 256, 1, 1}));
  EXPECT_EQ(run("vgg11", {1, 32, 32}, 8), (Shape{2, 512, 1, 1}));
}

TEST(Zoo, BlocksLeaveTheirInputsAlone) {
  for (const std::string name : {"mlp", "small_cnn", "resnet18"}) {
    const Architecture model = make_model(name, {.input_shape = {3, 32, 32}}).value();
    torch::Tensor x = torch::randn({2, 3, 32, 32});
    for (std::size_t i = 0; i < model.blocks.size(); ++i) {
      Network block(model, {.first = i, .last = i + 1});
      const torch::Tensor in = x.detach().requires_grad_(true);
      const torch::Tensor before = in.detach().clone();
      Flow flow({{"x", in}});
      block.forward(flow, {});
      EXPECT_TRUE(torch::equal(in.detach(), before)) << name << " " << model.blocks[i].name;
      x = flow.at("x");
    }
  }
}

TEST(Zoo, WeightsStartAsTorchvisionsDo) {
  const auto resnet = tensors_of(Network(make_model("resnet18", {}).value(), {.seed = 3, .last = 3}));
  EXPECT_NEAR(deviation(resnet.at("conv1.weight")), std::sqrt(2.0 / (64 * 49)), 0.001);
  EXPECT_NEAR(deviation(resnet.at("layer1.0.conv1.weight")), std::sqrt(2.0 / (64 * 9)), 0.002);
  EXPECT_TRUE(torch::equal(resnet.at("bn1.weight"), torch::ones({64})));
  EXPECT_FALSE(resnet.contains("conv1.bias"));

  const Architecture vgg = make_model("vgg11", {.classes = 50}).value();
  const auto features = tensors_of(Network(vgg, {.seed = 3, .last = 2}));
  EXPECT_NEAR(deviation(features.at("features.3.weight")), std::sqrt(2.0 / (128 * 9)), 0.002);
  EXPECT_EQ(features.at("features.3.bias").abs().sum().item<double>(), 0);
  const auto classifier = tensors_of(Network(vgg, {.seed = 3, .first = vgg.blocks.size() - 1}));
  EXPECT_NEAR(deviation(classifier.at("classifier.6.weight")), 0.01, 0.0005);

  const Architecture alexnet = make_model("alexnet", {}).value();
  const auto stem = tensors_of(Network(alexnet, {.seed = 3, .last = 1}));
  const double bound = 1 / std::sqrt(3.0 * 11 * 11);
  EXPECT_NEAR(stem.at("features.0.weight").abs().max().item<double>(), bound, bound * 0.01);
  EXPECT_GT(deviation(stem.at("features.0.bias")), 0);
}

TEST(Zoo, BatchNormFollowsThePass) {
  Network stem(make_model("resnet18", {}).value(), {.last = 1});
  auto tensors = tensors_of(stem);
  const auto run = [&](bool training, std::int64_t samples, std::int64_t side) {
    Flow flow({{"x", torch::randn({samples, 3, side, side})}});
    stem.forward(flow, Pass{.training = training});
  };
  stem.block(0).eval();  // the pass decides, not the module
  const torch::Tensor mean = tensors.at("bn1.running_mean").clone();
  run(true, 2, 16);
  EXPECT_EQ(tensors.at("bn1.num_batches_tracked").item<std::int64_t>(), 1);
  EXPECT_FALSE(torch::equal(tensors.at("bn1.running_mean"), mean));
  stem.block(0).train();
  const torch::Tensor trained = tensors.at("bn1.running_mean").clone();
  run(false, 2, 16);
  EXPECT_EQ(tensors.at("bn1.num_batches_tracked").item<std::int64_t>(), 1);
  EXPECT_TRUE(torch::equal(tensors.at("bn1.running_mean"), trained));

  try {
    run(true, 1, 1);
    FAIL() << "one value per channel has no variance";
  } catch (const base::Failure& failure) {
    EXPECT_EQ(failure.error().kind, base::ErrorKind::kInput);
    EXPECT_THAT(failure.error().message, ::testing::HasSubstr("local batch of 2"));
  }
  EXPECT_TRUE(torch::isfinite(tensors.at("bn1.running_var")).all().item<bool>());
}

TEST(Zoo, DropoutKeepsTheMean) {
  // Weights of one, so that every output is the scaled share of inputs that were kept.
  Network network(make_model("mlp", {.classes = 1, .dropout = 0.25}).value(), {.last = 1});
  torch::NoGradGuard no_gradients;
  for (NamedTensor& parameter : network.parameters()) parameter.tensor.fill_(parameter.name == "fc1.bias" ? 1 : 0);
  Flow flow({{"x", torch::zeros({400, 784})}});
  network.forward(flow, Pass{.training = true, .generator = at::detail::createCPUGenerator(4)});
  const torch::Tensor out = flow.at("x");
  EXPECT_NEAR(out.mean().item<double>(), 1, 0.01);
  EXPECT_NEAR(out.eq(0).to(torch::kFloat).mean().item<double>(), 0.25, 0.01);
  EXPECT_NEAR(out.max().item<double>(), 1 / 0.75, 1e-6);
}

TEST(Zoo, SmallModelsLearn) {
  torch::set_num_threads(1);
  for (const std::string name : {"mlp", "small_cnn"}) {
    SCOPED_TRACE(name);
    const Architecture model = make_model(name, {.classes = 4}).value();
    Network network(model, {.seed = 1});
    at::Generator generator = at::detail::createCPUGenerator(1);
    Score score;
    for (int step = 0; step < 40; ++step) {
      // The class is the quarter of the image that is brighter than the noise.
      const torch::Tensor targets = torch::randint(0, 4, {32}, generator, torch::TensorOptions(torch::kLong));
      torch::Tensor x = torch::randn({32, 1, 28, 28}, generator);
      for (int i = 0; i < 32; ++i) x[i][0].narrow(0, 7 * targets[i].item<int>(), 7) += 1;
      Flow flow({{"x", x}, {"targets", targets}});
      network.forward(flow, Pass{.training = true, .generator = generator});
      score = model.loss(flow, {}, true);
      score.loss.backward();
      torch::NoGradGuard no_gradients;
      for (NamedTensor& parameter : network.parameters()) {
        parameter.tensor.sub_(parameter.tensor.grad(), 0.05);
        parameter.tensor.mutable_grad().reset();
      }
    }
    EXPECT_GE(score.correct, 28);
  }
}

}  // namespace
}  // namespace yoke::models
