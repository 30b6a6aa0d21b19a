// torchvision's weights, loaded by name, give torchvision's outputs, losses and gradients.
#include "tests/models/python_peer.h"
#include "tests/support/temp_folder.h"

namespace yoke::models {
namespace {

using testing::expect_as_peer;
using testing::read_tensors;

/// The weights that fill() of torchvision_peer.py makes from the same names and shapes.
NamedTensors weights_of(const NamedTensors& shapes) {
  NamedTensors weights;
  for (const auto& [name, sizes] : shapes) {
    const std::vector<std::int64_t> shape(sizes.data_ptr<std::int64_t>(),
                                          sizes.data_ptr<std::int64_t>() + sizes.numel());
    const auto index = static_cast<std::int64_t>(weights.size());
    const at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(index));
    torch::Tensor tensor = torch::empty(shape);
    if (name.ends_with("num_batches_tracked")) {
      tensor = torch::full(shape, index, torch::kLong);
    } else if (name.ends_with("running_var")) {
      tensor.uniform_(0.5, 1.5, generator);
    } else if (name.ends_with("running_mean")) {
      tensor.uniform_(-0.2, 0.2, generator);
    } else if (tensor.dim() > 1) {
      const double bound = std::sqrt(6.0 / static_cast<double>(tensor[0].numel()));
      const std::vector<torch::Tensor> parts = tensor.flatten().split(999983);
      parts[0].uniform_(-bound, bound, generator);
      for (std::size_t i = 1; i < parts.size(); ++i) parts[i].copy_(parts[0].narrow(0, 0, parts[i].numel()));
    } else if (name.ends_with("weight")) {
      tensor.uniform_(0.8, 1.2, generator);
    } else {
      tensor.uniform_(-0.1, 0.1, generator);
    }
    weights.emplace_back(name, tensor);
  }
  return weights;
}

void expect_as_torchvision(const std::vector<std::string>& models) {
  YOKE_NEEDS_PYTHON("torchvision");
  torch::set_num_threads(1);
  const yoke::testing::TempFolder folder;
  std::vector<std::string> arguments = {folder.path()};
  arguments.insert(arguments.end(), models.begin(), models.end());
  ASSERT_NO_FATAL_FAILURE(testing::run_peer("torchvision_peer.py", arguments));
  for (const std::string& name : models) {
    SCOPED_TRACE(name);
    const NamedTensors peer = read_tensors(folder.file(name + ".pt"));
    const Architecture architecture = make_model(name, {.classes = 7, .dropout = 0}).value();
    Network network(architecture, {.seed = 1});
    const base::Status loaded = load_weights(network, weights_of(testing::under(peer, "shape/")));
    ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
    expect_as_peer(network, architecture, peer, /*training=*/false);
    expect_as_peer(network, architecture, peer, /*training=*/true);
  }
}

// One python for several models: importing torchvision takes longer than most of them.
TEST(Torchvision, ResidualNetworksAgree) {
  expect_as_torchvision({"resnet18", "resnet34", "resnet50", "resnet101"});
}

TEST(Torchvision, PlainNetworksAgree) {
  expect_as_torchvision({"alexnet", "vgg11", "vgg16"});
}

}  // namespace
}  // namespace yoke::models
