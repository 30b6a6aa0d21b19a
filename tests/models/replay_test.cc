// Blocks that replay a layer profile: they take its time, move its bytes, and can be cut anywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/temp_folder.h"
#include "yoke/models/model.h"

namespace yoke::models {
namespace {

using ::testing::HasSubstr;

// a feeds b and d; b has two outputs, both for c; c and d are joined.
constexpr const char* kGraph =
    "a -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=400.0, "
    "parameter_size=0.000\n"
    "b -- LSTM -- forward_compute_time=20.000, backward_compute_time=30.000, activation_size=[80.0; 40.0], "
    "parameter_size=4000.000\n"
    "c -- Linear -- forward_compute_time=5.000, backward_compute_time=5.000, activation_size=40.0, "
    "parameter_size=400.000\n"
    "d -- Add -- forward_compute_time=5.000, backward_compute_time=5.000, activation_size=8.0, parameter_size=0.000\n"
    "\ta -- b\n\tb -- c\n\tc -- d\n\ta -- d\n";

struct Replay {
  const testing::TempFolder folder;
  const std::string path = folder.write("graph.txt", kGraph);
  Architecture make(double time, double size) const {
    return make_model("replay", {.path = path, .time_scale = time, .size_scale = size}).value();
  }
};

Flow input() {
  return Flow({{"x", torch::zeros({3, 1})}, {"targets", torch::zeros({3}, torch::kLong)}});
}

TEST(Replay, HasTheProfilesLayersSizesAndParameters) {
  const Replay replay;
  const Architecture model = replay.make(0, 0.5);
  ASSERT_EQ(model.blocks.size(), 4U);
  EXPECT_EQ(model.blocks[1].name, "b");
  Network network(model, {.first = 0, .last = 2});
  Flow flow = input();
  network.forward(flow, {});
  EXPECT_EQ(flow.at("a").numel(), 50);  // for the layer after next
  EXPECT_EQ(flow.at("b.0").numel(), 10);
  EXPECT_EQ(flow.at("b.1").numel(), 5);
  EXPECT_EQ(network.parameters()[1].tensor.numel(), 500);
}

TEST(Replay, TakesTheProfiledTimeForwardAndBackward) {
  const Replay replay;
  const Architecture model = replay.make(2, 1);
  Network network(model, {});
  Flow flow = input();
  const auto begin = std::chrono::steady_clock::now();
  network.forward(flow, {});
  const auto middle = std::chrono::steady_clock::now();
  const Score score = model.loss(flow, {}, false);
  score.loss.backward();
  const auto end = std::chrono::steady_clock::now();
  EXPECT_GE(middle - begin, std::chrono::milliseconds(60));
  EXPECT_GE(end - middle, std::chrono::milliseconds(80));
  EXPECT_EQ(score.samples, 3);
  for (const auto& parameter : network.parameters()) EXPECT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
}

TEST(Replay, RefusesWhatIsNoProfile) {
  EXPECT_THAT(make_model("replay", {}).error().to_string(), HasSubstr("expected a layer profile"));
  EXPECT_FALSE(make_model("replay", {.path = "/nowhere/graph.txt"}).ok());
  const Replay replay;
  EXPECT_FALSE(make_model("replay", {.path = replay.path, .time_scale = -1}).ok());
}

}  // namespace
}  // namespace yoke::models
