#include "yoke/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ostream>

#include "tests/support/files.h"

namespace yoke::models {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using yoke::testing::expect_input_error;

base::Error failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const base::Failure& failure) {
    return failure.error();
  }
  ADD_FAILURE() << "expected a base::Failure";
  return {};
}

/// Parameters and buffers by name, as copies.
std::map<std::string, torch::Tensor> snapshot(const Network& network) {
  std::map<std::string, torch::Tensor> all;
  for (const auto& tensors : {network.parameters(), network.buffers()}) {
    for (const NamedTensor& tensor : tensors) all[tensor.name] = tensor.tensor.detach().clone();
  }
  return all;
}

NamedTensors as_weights(const Network& network) {
  NamedTensors weights;
  for (const auto& [name, tensor] : snapshot(network)) weights.emplace_back(name, tensor);
  return weights;
}

void expect_equal(const std::map<std::string, torch::Tensor>& found,
                  const std::map<std::string, torch::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(torch::equal(found.at(name), tensor)) << name;
  }
}

class Scale : public Block {
 public:
  Scale() { factor_ = register_parameter("factor", torch::full({}, 2.0F)); }
  void forward(Flow& flow, const Pass&) override { flow.set("x", flow.take("x") * factor_); }

 private:
  torch::Tensor factor_;
};

BlockSpec scale(const std::string& name, const std::string& prefix) {
  return {.name = name, .prefix = prefix, .make = [] { return std::make_shared<Scale>(); }};
}

TEST(Flow, HoldsTensorsByName) {
  Flow flow({{"x", torch::ones({2})}});
  flow.set("skip", torch::zeros({3}));
  flow.set("x", torch::zeros({5}));
  EXPECT_TRUE(flow.contains("skip"));
  EXPECT_EQ(flow.take("x").size(0), 5);
  EXPECT_FALSE(flow.contains("x"));
  EXPECT_EQ(flow.tensors().size(), 1U);
  EXPECT_EQ(flow.at("skip").size(0), 3);
  EXPECT_THAT(failure_of([&] { flow.at("x"); }).message, HasSubstr("the flow holds `skip` [3]"));
  EXPECT_THAT(failure_of([&] { flow.take("y"); }).message, HasSubstr("`y`"));
}

struct Cut {
  std::string model;
  ModelOptions options;
  std::vector<std::int64_t> input;
};

void PrintTo(const Cut& cut, std::ostream* out) {
  *out << cut.model;
}

class Ranges : public ::testing::TestWithParam<Cut> {};

// A pipeline of three stages is the whole model: weights, outputs, gradients, buffers and dropout.
TEST_P(Ranges, TogetherAreTheWhole) {
  const Architecture architecture = make_model(GetParam().model, GetParam().options).value();
  const std::size_t count = architecture.blocks.size();
  const torch::Tensor x = torch::randn(GetParam().input, at::detail::createCPUGenerator(3));
  const torch::Tensor targets = torch::arange(x.size(0)) % GetParam().options.classes;
  const auto worker = [] { return at::detail::createCPUGenerator(17); };
  const auto grads = [](const Network& network, std::map<std::string, torch::Tensor>& into) {
    for (const NamedTensor& parameter : network.parameters()) into[parameter.name] = parameter.tensor.grad();
  };

  Network whole(architecture, {.seed = 5});
  Flow flow({{"x", x}, {"targets", targets}});
  whole.forward(flow, Pass{.training = true, .generator = worker()});
  architecture.loss(flow, {}, false).loss.backward();
  std::map<std::string, torch::Tensor> expected_grads;
  grads(whole, expected_grads);

  // Built in another order, and with other draws in between.
  std::vector<std::unique_ptr<Network>> stages(3);
  for (const std::size_t i : {2U, 0U, 1U}) {
    torch::rand({7});
    stages[i] = std::make_unique<Network>(architecture,
                                          BuildOptions{.seed = 5, .first = i * count / 3, .last = (i + 1) * count / 3});
  }
  Flow staged({{"x", x}, {"targets", targets}});
  for (const auto& stage : stages) stage->forward(staged, Pass{.training = true, .generator = worker()});
  architecture.loss(staged, {}, false).loss.backward();

  EXPECT_TRUE(torch::equal(staged.at("x"), flow.at("x")));
  std::map<std::string, torch::Tensor> found, found_grads;
  std::size_t last_block = 0;
  for (const auto& stage : stages) {
    found.merge(snapshot(*stage));
    grads(*stage, found_grads);
    for (const NamedTensor& parameter : stage->parameters()) {
      EXPECT_GE(parameter.block, last_block);
      last_block = parameter.block;
    }
  }
  EXPECT_EQ(last_block, count - 1);
  expect_equal(found, snapshot(whole));
  expect_equal(found_grads, expected_grads);
}

INSTANTIATE_TEST_SUITE_P(Zoo, Ranges,
                         ::testing::Values(Cut{"mlp", {.classes = 4, .dropout = 0.5}, {8, 1, 28, 28}},
                                           Cut{"small_cnn", {.classes = 10, .dropout = 0.2}, {4, 1, 28, 28}},
                                           Cut{"resnet18", {.classes = 3}, {2, 3, 48, 48}}),
                         [](const auto& tested) { return tested.param.model; });

TEST(Network, WeightsDependOnTheSeedOnly) {
  const Architecture architecture = make_model("small_cnn", {}).value();
  const torch::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
  const Network one(architecture, {.seed = 1});
  EXPECT_TRUE(torch::equal(at::detail::getDefaultCPUGenerator().get_state(), state)) << "the process's draws changed";
  torch::rand({100});
  expect_equal(snapshot(Network(architecture, {.seed = 1})), snapshot(one));
  EXPECT_FALSE(torch::equal(snapshot(Network(architecture, {.seed = 2}))["fc1.weight"], snapshot(one)["fc1.weight"]));
  for (const NamedTensor& parameter : one.parameters()) EXPECT_TRUE(parameter.tensor.requires_grad()) << parameter.name;
  for (const NamedTensor& buffer : one.buffers()) EXPECT_FALSE(buffer.tensor.requires_grad()) << buffer.name;
}

TEST(Network, DropoutIsRepeatablePerGenerator) {
  Network network(make_model("mlp", {.dropout = 0.5}).value(), {.seed = 1});
  const torch::Tensor x = torch::randn({4, 784});
  const auto run = [&](bool training, std::optional<at::Generator> generator) {
    Flow flow({{"x", x}});
    network.forward(flow, Pass{.training = training, .generator = std::move(generator)});
    return flow.at("x").detach();
  };
  at::Generator generator = at::detail::createCPUGenerator(9);
  const torch::Tensor first = run(true, generator);
  EXPECT_TRUE(torch::equal(first, run(true, at::detail::createCPUGenerator(9))));
  EXPECT_FALSE(torch::equal(first, run(true, generator))) << "the next pass drew the same";
  EXPECT_FALSE(torch::equal(first, run(true, at::detail::createCPUGenerator(10))));
  EXPECT_FALSE(torch::equal(run(true, {}), run(true, {})));
  EXPECT_TRUE(torch::equal(run(false, generator), run(false, {})));
}

TEST(Network, NamesTheBlockThatRefusesTheData) {
  Network network(make_model("mlp", {}).value(), {});
  Flow flow({{"x", torch::ones({2, 5})}});
  const base::Error error = failure_of([&] { network.forward(flow, {}); });
  EXPECT_EQ(error.kind, base::ErrorKind::kInput);
  EXPECT_THAT(error.message, HasSubstr("block `fc1` cannot work on x of shape [2, 5]"));
  Flow empty;
  EXPECT_EQ(failure_of([&] { network.forward(empty, {}); }).kind, base::ErrorKind::kInternal);
}

TEST(Network, RefusesRangesAndNamesThatCannotBe) {
  const Architecture twins{.name = "twins", .blocks = {scale("a", "p"), scale("b", "p")}, .loss = cross_entropy};
  EXPECT_THAT(failure_of([&] { Network network(twins, {}); }).message, HasSubstr("two tensors `p.factor`"));
  EXPECT_EQ(Network(twins, {.last = 1}).blocks(), 1U);
  EXPECT_THAT(failure_of([&] { Network network(twins, {.first = 1, .last = 3}); }).message, HasSubstr("has 2"));
}

TEST(LoadWeights, CopiesByName) {
  const Architecture architecture = make_model("small_cnn", {}).value();
  const Network from(architecture, {.seed = 1});
  Network to(architecture, {.seed = 2});
  NamedTensors weights = as_weights(from);
  std::reverse(weights.begin(), weights.end());
  ASSERT_TRUE(load_weights(to, weights).ok());
  expect_equal(snapshot(to), snapshot(from));
  for (const NamedTensor& parameter : to.parameters()) EXPECT_TRUE(parameter.tensor.requires_grad());
}

TEST(LoadWeights, TakesOldFilesAndOtherPrecisions) {
  const Architecture architecture = make_model("small_cnn", {}).value();
  Network network(architecture, {.seed = 1});
  network.buffers()[2].tensor.fill_(3);
  NamedTensors weights;
  for (const auto& [name, tensor] : as_weights(network)) {
    if (!name.ends_with("num_batches_tracked")) weights.emplace_back(name, tensor.to(torch::kHalf));
  }
  const base::Status status = load_weights(network, weights);
  ASSERT_TRUE(status.ok()) << status.error().to_string();
  EXPECT_EQ(network.buffers()[2].tensor.item<std::int64_t>(), 0);
  EXPECT_EQ(network.parameters()[0].tensor.scalar_type(), torch::kFloat);
}

TEST(LoadWeights, RefusesByNameAndChangesNothing) {
  const Architecture architecture = make_model("small_cnn", {}).value();
  Network network(architecture, {.seed = 1});
  const auto before = snapshot(network);
  const NamedTensors good = as_weights(Network(architecture, {.seed = 2}));
  const auto refuses = [&](const std::function<void(NamedTensors&)>& spoil, const std::string& part) {
    SCOPED_TRACE(part);
    NamedTensors weights = good;
    spoil(weights);
    expect_input_error(load_weights(network, weights, {.file = "weights.safetensors"}), part);
    expect_equal(snapshot(network), before);
  };
  const auto last = [](NamedTensors & weights) -> auto& {
    return weights.back();
  };
  refuses([&](auto& w) { last(w).second = torch::ones({3}); },
          "weights.safetensors: layer2.conv.weight: found `layer2.conv.weight` of shape [3], expected [32, 16, 3, 3]");
  refuses([&](auto& w) { w.pop_back(); }, "found no tensor `layer2.conv.weight`");
  refuses([&](auto& w) { w.emplace_back("layer2.conv.weights", torch::ones({1})); },
          "found `layer2.conv.weights`, which the model does not have, did you mean `layer2.conv.weight`?");
  refuses([&](auto& w) { w.push_back(last(w)); }, "`layer2.conv.weight` twice");
  refuses([&](auto& w) { last(w).second = last(w).second.to(torch::kLong); }, "of type Long, expected Float");
}

TEST(CrossEntropy, IsTheMeanOverSamples) {
  const torch::Tensor scores = torch::randn({6, 5}).requires_grad_(true);
  const torch::Tensor targets = torch::tensor({0, 1, 2, 3, 4, 0});
  const Flow flow({{"x", scores}, {"targets", targets}});
  const torch::Tensor log = scores.detach().log_softmax(1);
  const double plain = -log.gather(1, targets.unsqueeze(1)).mean().item<double>();
  const double spread = -log.mean().item<double>();
  for (const double smoothing : {0.0, 0.1, 0.5}) {
    const Score score = cross_entropy(flow, {.label_smoothing = smoothing}, false);
    EXPECT_NEAR(score.loss.item<double>(), (1 - smoothing) * plain + smoothing * spread, 1e-6);
    EXPECT_EQ(score.samples, 6);
    EXPECT_EQ(score.correct, -1);
    EXPECT_TRUE(score.loss.requires_grad());
  }
  torch::Tensor sure = torch::nn::functional::one_hot(targets, 5).to(torch::kFloat);
  sure[1] = sure[0];
  EXPECT_EQ(cross_entropy(Flow({{"x", sure}, {"targets", targets}}), {}, true).correct, 5);
}

TEST(Registry, MakesWhatItLists) {
  for (const std::string name :
       {"mlp", "small_cnn", "alexnet", "vgg11", "vgg16", "resnet18", "resnet34", "resnet50", "resnet101"}) {
    EXPECT_THAT(list_models(), Contains(name));
    const auto model = make_model(name, {});
    ASSERT_TRUE(model.ok()) << name;
    EXPECT_EQ(model->name, name);
  }
  EXPECT_THAT(list_models(), Contains("torchscript"));
  expect_input_error(make_model("resnet11", {}), "did you mean `resnet");
  expect_input_error(make_model("", {}), "expected mlp, small_cnn");
}

TEST(Registry, TakesModelsOfOthers) {
  const auto info_of = [](const std::string& name, std::vector<BlockSpec> blocks) {
    return ModelInfo{.name = name, .summary = "", .make = [=](const ModelOptions&) -> base::Result<Architecture> {
                       return Architecture{.name = name, .blocks = blocks, .loss = cross_entropy};
                     }};
  };
  ASSERT_TRUE(register_model(info_of("own", {scale("a", "a"), scale("b", "b")})).ok());
  EXPECT_THAT(list_models(), Contains("own"));
  Network network(make_model("own", {}).value(), {});
  Flow flow({{"x", torch::ones({1})}});
  network.forward(flow, {});
  EXPECT_EQ(flow.at("x").item<float>(), 4);

  expect_input_error(register_model(info_of("own", {scale("a", "a")})), "`own`, which is taken");
  expect_input_error(register_model(info_of("mlp", {scale("a", "a")})), "`mlp`, which is taken");
  expect_input_error(register_model(info_of("my model", {scale("a", "a")})), "without blanks");
  ASSERT_TRUE(register_model(info_of("hollow", {})).ok());
  EXPECT_THAT(failure_of([] { static_cast<void>(make_model("hollow", {})); }).message, HasSubstr("no blocks"));
  ASSERT_TRUE(register_model(info_of("double", {scale("a", "a"), scale("a", "b")})).ok());
  EXPECT_THAT(failure_of([] { static_cast<void>(make_model("double", {})); }).message, HasSubstr("two blocks `a`"));
}

}  // namespace
}  // namespace yoke::models
