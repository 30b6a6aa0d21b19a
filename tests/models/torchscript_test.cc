#include <torch/script.h>

#include "tests/models/python_peer.h"
#include "tests/support/temp_folder.h"

namespace yoke::models {
namespace {

using ::testing::ElementsAre;
using testing::expect_as_peer;
using testing::read_tensors;
using yoke::testing::expect_input_error;
using yoke::testing::TempFolder;

base::Result<Architecture> open(const std::string& path) {
  return make_model("torchscript", {.path = path});
}

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

std::vector<std::string> blocks_of(const Architecture& architecture) {
  std::vector<std::string> names;
  for (const BlockSpec& block : architecture.blocks) names.push_back(block.name);
  return names;
}

/// A script with one parameter, `weight` [2], and what `code` does with it; saved.
std::string save_script(
    const TempFolder& folder, const std::string& code,
    const std::function<void(torch::jit::Module&)>& change = [](auto&) {}) {
  torch::jit::Module script("Small");
  script.register_parameter("weight", torch::tensor({2.0F, 3.0F}).requires_grad_(true), false);
  change(script);
  script.define(code);
  script.save(folder.file("small.ts"));
  return folder.file("small.ts");
}

const std::string kScale = "def forward(self, x):\n  return x * self.weight\n";

TEST(TorchScript, AgreesWithPython) {
  YOKE_NEEDS_PYTHON("torch");
  torch::set_num_threads(1);
  const TempFolder folder;
  ASSERT_NO_FATAL_FAILURE(testing::run_peer("torchscript_peer.py", {folder.path()}));
  {
    SCOPED_TRACE("scripted");
    const NamedTensors peer = read_tensors(folder.file("scripted.pt"));
    const Architecture architecture = open(folder.file("scripted.ts")).value();
    EXPECT_THAT(blocks_of(architecture), ElementsAre("0", "1", "2", "3", "4", "5", "6", "7"));
    Network network(architecture, {});
    EXPECT_THAT(names_of(network.parameters()),
                ElementsAre("0.weight", "0.bias", "1.weight", "1.bias", "4.weight", "4.bias", "7.weight", "7.bias"));
    EXPECT_THAT(names_of(network.buffers()), ElementsAre("1.running_mean", "1.running_var", "1.num_batches_tracked"));
    expect_as_peer(network, architecture, peer, false);
    expect_as_peer(network, architecture, peer, true);

    // A stage that begins with a relu in place, fed like a pipeline feeds it.
    Network first(architecture, {.last = 2}), second(architecture, {.first = 2});
    Flow flow({{"x", testing::named(peer, "x")}});
    first.forward(flow, Pass{.training = false});
    const torch::Tensor sent = flow.at("x").detach().requires_grad_(true);
    const torch::Tensor before = sent.detach().clone();
    Flow received({{"x", sent}, {"targets", testing::named(peer, "targets")}});
    second.forward(received, Pass{.training = false});
    EXPECT_LT(testing::difference(received.at("x").detach(), testing::named(peer, "eval/output")), 1e-4);
    cross_entropy(received, {}, false).loss.backward();
    EXPECT_TRUE(sent.grad().defined());
    EXPECT_TRUE(torch::equal(sent.detach(), before));
  }
  {
    SCOPED_TRACE("traced in evaluation");
    const Architecture architecture = open(folder.file("traced.ts")).value();
    EXPECT_EQ(architecture.blocks.size(), 8U);
    Network network(architecture, {});
    expect_as_peer(network, architecture, read_tensors(folder.file("traced.pt")), false);
  }
  {
    SCOPED_TRACE("not a Sequential");
    const NamedTensors peer = read_tensors(folder.file("residual.pt"));
    const Architecture architecture = open(folder.file("residual.ts")).value();
    EXPECT_THAT(blocks_of(architecture), ElementsAre("model"));
    Network network(architecture, {});
    expect_as_peer(network, architecture, peer, false);
    expect_as_peer(network, architecture, peer, true);
  }
  expect_input_error(open(folder.file("state_dict.pth")), "state_dict.pth: found no TorchScript module");
}

TEST(TorchScript, NetworksShareNothing) {
  const TempFolder folder;
  const Architecture architecture = open(save_script(folder, kScale)).value();
  std::filesystem::remove(folder.file("small.ts"));  // read once, when the model was made
  Network one(architecture, {}), other(architecture, {});
  {
    torch::NoGradGuard no_gradients;
    one.parameters()[0].tensor.fill_(10);
  }
  Flow flow({{"x", torch::ones({1, 2})}});
  other.forward(flow, {});
  EXPECT_TRUE(torch::equal(flow.at("x"), torch::tensor({{2.0F, 3.0F}})));
  flow.at("x").sum().backward();
  EXPECT_TRUE(other.parameters()[0].tensor.grad().defined());
  EXPECT_FALSE(one.parameters()[0].tensor.grad().defined());
}

TEST(TorchScript, WeightsCanMoveToOtherMemory) {
  const TempFolder folder;
  const Architecture architecture = open(save_script(folder, kScale)).value();
  Network network(architecture, {});
  torch::Tensor flat = torch::full({2}, 5.0F);
  network.parameters()[0].tensor.set_data(flat);  // as a reducer does with its buckets
  Flow flow({{"x", torch::ones({1, 2})}});
  network.forward(flow, {});
  EXPECT_TRUE(torch::equal(flow.at("x"), torch::full({1, 2}, 5.0F)));
}

TEST(TorchScript, ABufferThatIsAssignedStaysTheSameTensor) {
  const TempFolder folder;
  const std::string path =
      save_script(folder, "def forward(self, x):\n  self.count = self.count + 1\n  return x * self.weight\n",
                  [](torch::jit::Module& script) { script.register_buffer("count", torch::zeros({})); });
  const Architecture architecture = open(path).value();
  Network network(architecture, {});
  const torch::Tensor count = network.buffers().at(0).tensor;
  for (int i = 0; i < 2; ++i) {
    Flow flow({{"x", torch::ones({1, 2})}});
    network.forward(flow, {});
  }
  EXPECT_EQ(count.item<float>(), 2);
  EXPECT_TRUE(network.buffers()[0].tensor.is_same(count));
}

TEST(TorchScript, FrozenParametersAreBuffers) {
  const TempFolder folder;
  const std::string path = save_script(
      folder, kScale, [](torch::jit::Module& script) { script.register_parameter("frozen", torch::ones({3}), false); });
  Network network(open(path).value(), {});
  EXPECT_THAT(names_of(network.parameters()), ElementsAre("weight"));
  EXPECT_THAT(names_of(network.buffers()), ElementsAre("frozen"));
}

TEST(TorchScript, ModeFollowsThePass) {
  const TempFolder folder;
  const std::string path = save_script(
      folder, "def forward(self, x):\n  return x * self.weight if self.training else x\n",
      [](torch::jit::Module& script) { script.register_attribute("training", c10::BoolType::get(), true); });
  Network network(open(path).value(), {});
  for (const bool training : {false, true, false}) {
    Flow flow({{"x", torch::ones({1, 2})}});
    network.forward(flow, Pass{.training = training});
    EXPECT_EQ(flow.at("x").sum().item<float>(), training ? 5 : 2);
  }
}

TEST(TorchScript, RefusesWhatItCannotRun) {
  const TempFolder folder;
  expect_input_error(open(folder.file("absent.ts")), "absent.ts: found no such file");
  expect_input_error(open(folder.path()), "found no such file");
  expect_input_error(open(folder.write("text.ts", "hello")), "text.ts: found no TorchScript module");
  expect_input_error(open(""), "path: found no path");
  expect_input_error(make_model("torchscript", {.path = "x", .dropout = 0.5}), "dropout");
  expect_input_error(open(save_script(folder, "def forward(self, x, y):\n  return x * self.weight + y\n")),
                     "takes one tensor");
  expect_input_error(open(save_script(folder, "def forward(self, x):\n  return x * self.weight, x\n")),
                     "takes one tensor");
  expect_input_error(open(save_script(folder, kScale,
                                      [](torch::jit::Module& script) {
                                        script.register_parameter("twin", script.attr("weight").toTensor(), false);
                                      })),
                     "`weight` and `twin` share memory");
  expect_input_error(
      open(save_script(folder, kScale, [](torch::jit::Module& script) { script.setattr("weight", torch::ones({2})); })),
      "no parameter that wants gradients");
  const std::string whole = yoke::testing::read_text(save_script(folder, kScale));
  expect_input_error(open(folder.write("cut.ts", whole.substr(0, whole.size() / 2))), "cut.ts: found no TorchScript");
}

TEST(TorchScript, AFailingScriptNamesTheShape) {
  const TempFolder folder;
  Network network(open(save_script(folder, kScale)).value(), {});
  Flow flow({{"x", torch::ones({4, 3})}});
  try {
    network.forward(flow, {});
    FAIL() << "expected a failure";
  } catch (const base::Failure& failure) {
    EXPECT_EQ(failure.error().kind, base::ErrorKind::kInput);
    EXPECT_THAT(failure.error().message, ::testing::HasSubstr("block `model` cannot work on x of shape [4, 3]"));
    EXPECT_THAT(failure.error().message, ::testing::HasSubstr("must match the size"));
    EXPECT_EQ(failure.error().message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace yoke::models
