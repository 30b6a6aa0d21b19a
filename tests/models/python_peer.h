// Debian's python as the peer that the models are compared with, and what it writes as a file of named tensors.
#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "yoke/models/model.h"

namespace yoke::models::testing {

inline constexpr const char* kPython = "/usr/bin/python3";

inline bool python_has(const std::string& module) {
  yoke::testing::Process python(
      {kPython, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('" + module + "') is None)"});
  return python.wait(std::chrono::seconds(120)) && python.exit_code() == 0;
}

/// Skips the running test, and says why, where the python module is absent.
#define YOKE_NEEDS_PYTHON(module)                 \
  if (!yoke::models::testing::python_has(module)) \
  GTEST_SKIP() << yoke::models::testing::kPython << " has no module " << module

/// Runs a script of this folder; its failure fails the test with what it printed.
inline void run_peer(const std::string& script, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {kPython, std::string(yoke::testing::kSourceDir) + "/tests/models/" + script};
  command.insert(command.end(), arguments.begin(), arguments.end());
  yoke::testing::Process python(command, {"PYTHONDONTWRITEBYTECODE=1"});
  ASSERT_TRUE(python.wait(std::chrono::seconds(240))) << script << " did not end: " << python.output();
  ASSERT_EQ(python.exit_code(), 0) << python.output();
}

/// A dictionary of tensors that torch.save wrote, in its order.
inline NamedTensors read_tensors(const std::string& path) {
  const std::string text = yoke::testing::read_text(path);
  NamedTensors tensors;
  for (const auto& item : torch::jit::pickle_load({text.begin(), text.end()}).toGenericDict()) {
    tensors.emplace_back(item.key().toStringRef(), item.value().toTensor());
  }
  return tensors;
}

/// Those whose names begin with `prefix`, without it.
inline NamedTensors under(const NamedTensors& tensors, std::string_view prefix) {
  NamedTensors some;
  for (const auto& [name, tensor] : tensors) {
    if (name.rfind(prefix, 0) == 0) some.emplace_back(name.substr(prefix.size()), tensor);
  }
  return some;
}

inline torch::Tensor named(const NamedTensors& tensors, std::string_view name) {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return tensor;
  }
  ADD_FAILURE() << "the peer wrote no " << name;
  return torch::empty({0});
}

/// What the peers write of a large tensor: about 10,000 of its values, spread evenly (see sample() of peer.py).
inline torch::Tensor sample(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().flatten();
  const std::int64_t stride = flat.numel() > 20000 ? (flat.numel() / 10000) | 1 : 1;
  return flat.index({torch::indexing::Slice(torch::indexing::None, torch::indexing::None, stride)});
}

/// The Euclidean length of all values.
inline torch::Tensor length(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().flatten();
  return flat.dot(flat).to(torch::kFloat).sqrt();
}

/// The largest difference, relative to the largest value expected.
inline double difference(const torch::Tensor& found, const torch::Tensor& expected) {
  if (found.sizes() != expected.sizes()) return INFINITY;
  const double scale = expected.abs().max().item<double>();
  return (found.to(torch::kDouble) - expected.to(torch::kDouble)).abs().max().item<double>() / std::max(scale, 1e-12);
}

inline constexpr double kTolerance = 1e-4;

/// Runs the network forward and backward and compares outputs, loss, gradients and buffers with what the peer wrote
/// under `<mode>/`.
inline void expect_as_peer(Network& network, const Architecture& architecture, const NamedTensors& peer,
                           bool training) {
  const std::string mode = training ? "train/" : "eval/";
  SCOPED_TRACE(mode);
  for (NamedTensor& parameter : network.parameters()) parameter.tensor.mutable_grad().reset();
  Flow flow({{"x", named(peer, "x").clone()}, {"targets", named(peer, "targets")}});
  network.forward(flow, Pass{.training = training});
  const Score score = architecture.loss(flow, {}, false);
  score.loss.backward();

  EXPECT_LT(difference(flow.at("x").detach(), named(peer, mode + "output")), kTolerance);
  EXPECT_LT(difference(score.loss.detach(), named(peer, mode + "loss")), kTolerance);
  std::set<std::string> found;
  const auto expect_same = [&](const std::string& kind, const NamedTensor& tensor, const torch::Tensor& values) {
    const std::string name = mode + kind + tensor.name;
    found.insert(name);
    ASSERT_TRUE(values.defined()) << name;
    EXPECT_LT(difference(sample(values), named(peer, name)), kTolerance) << name;
    EXPECT_LT(difference(length(values), named(peer, mode + "norm/" + kind + tensor.name)), kTolerance) << name;
  };
  for (const NamedTensor& parameter : network.parameters()) {
    expect_same("gradient/", parameter, parameter.tensor.grad());
  }
  for (const NamedTensor& buffer : network.buffers()) expect_same("buffer/", buffer, buffer.tensor);
  for (const std::string kind : {"gradient/", "buffer/"}) {
    for (const auto& [name, tensor] : under(peer, mode + kind)) {
      EXPECT_TRUE(found.contains(mode + kind + name)) << "the network lacks " << name;
    }
  }
}

}  // namespace yoke::models::testing
