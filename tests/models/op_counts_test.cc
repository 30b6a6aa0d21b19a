#include "yoke/models/op_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace yoke::models {
namespace {

using ::testing::HasSubstr;

/// All of one pass.
double flops(const ModelCount& count, bool forward, std::int64_t samples) {
  double sum = 0;
  for (const auto& block : count.blocks) {
    for (const auto& op : forward ? block.forward : block.backward) sum += op.flops.of(samples);
  }
  return sum;
}

TEST(OpCounts, AreThoseOfAModelCountedByHand) {
  const auto count = count_ops({.model = "small_cnn", .classes = 10});
  ASSERT_TRUE(count.ok()) << count.error().to_string();
  ASSERT_EQ(count->blocks.size(), 4U);
  EXPECT_EQ(count->input_bytes.of(7), 7 * 28 * 28 * 4);
  // layer1: 16 filters of 5x5 on one channel, 14x14 outputs.
  const auto& layer1 = count->blocks[0];
  ASSERT_FALSE(layer1.forward.empty());
  EXPECT_EQ(layer1.forward[0].name, "aten::convolution");
  EXPECT_DOUBLE_EQ(layer1.forward[0].flops.of(3), 3.0 * 2 * 16 * 14 * 14 * 25);
  EXPECT_DOUBLE_EQ(layer1.forward[0].bytes.of(3), 4.0 * (3 * 28 * 28 + 16 * 25 + 3 * 16 * 14 * 14));
  EXPECT_DOUBLE_EQ(layer1.output_bytes.of(5), 4.0 * 5 * 16 * 14 * 14);
  EXPECT_THAT(layer1.parameter_bytes, ::testing::ElementsAre(16 * 25 * 4, 16 * 4, 16 * 4));
  // Nobody asks for the gradient of the images: one convolution there, two in the next block.
  const auto convolutions = [&](std::size_t block) {
    const auto& ops = count->blocks[block].backward;
    const auto found = std::ranges::find(ops, "aten::convolution_backward", &OpCount::name);
    return found == ops.end() ? 0 : found->kernels;
  };
  EXPECT_EQ(convolutions(0), 1);
  EXPECT_EQ(convolutions(1), 2);
  EXPECT_EQ(layer1.forward[0].kind, OpKind::kMatrix) << "5x5";
  // fc2: a matrix product whose weights do not grow with the batch.
  const auto& fc2 = count->blocks[3].forward;
  const auto product = std::ranges::find(fc2, "aten::addmm", &OpCount::name);
  ASSERT_NE(product, fc2.end());
  EXPECT_GT(product->bytes.fixed, 0);
  EXPECT_NEAR(product->flops.fixed, 0, 1e-6);
}

TEST(OpCounts, BackwardIsAboutTwiceForward) {
  // Small images: the counts of ResNets do not care, and tests should be quick.
  const auto count = count_ops({.model = "resnet18", .classes = 10, .input_shape = {3, 64, 64}});
  ASSERT_TRUE(count.ok()) << count.error().to_string();
  const double forward = flops(*count, true, 8);
  EXPECT_NEAR(flops(*count, false, 8) / forward, 2, 0.1);
  // 1.82 G multiply-adds at 224x224.
  EXPECT_NEAR(forward / 8 * (224.0 / 64) * (224.0 / 64), 2 * 1.82e9, 0.1e9);
  const auto three = [](const OpCount& op) { return op.kind == OpKind::kConvolution3; };
  EXPECT_TRUE(std::ranges::any_of(count->blocks[1].forward, three));
  EXPECT_FALSE(std::ranges::any_of(count->blocks[0].forward, three)) << "7x7 with stride 2";
}

TEST(OpCounts, RefusesWhatTheModelRefuses) {
  const auto unknown = count_ops({.model = "resnet19"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, base::ErrorKind::kInput);
  EXPECT_THAT(unknown.error().message, HasSubstr("resnet18"));
  EXPECT_FALSE(count_ops({.model = "vgg11", .input_shape = {3, 8, 8}}).ok());
}

}  // namespace
}  // namespace yoke::models
