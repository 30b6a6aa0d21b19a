#include "yoke/adapt/similarity.h"

#include <gtest/gtest.h>

#include <limits>

namespace yoke::adapt {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(CosineSimilarity, IsTheCosineOfTheAngle) {
  // a = (3, 4), b = (4, 3)
  EXPECT_DOUBLE_EQ(*cosine_similarity(24, 25, 25), 0.96);
  EXPECT_DOUBLE_EQ(*cosine_similarity(0, 25, 25), 0);
  EXPECT_DOUBLE_EQ(*cosine_similarity(-6, 4, 9), -1);
}

TEST(CosineSimilarity, RoundingNeverLeavesTheRangeAndLargeNormsDoNotOverflow) {
  EXPECT_EQ(*cosine_similarity(1.0000001, 1, 1), 1);
  EXPECT_NEAR(*cosine_similarity(1e300, 1e300, 1e300), 1, 1e-12);
  EXPECT_NEAR(*cosine_similarity(1e-300, 1e-300, 1e-300), 1, 1e-12);
}

TEST(CosineSimilarity, IsUndefinedForZeroAndForNoNumbers) {
  EXPECT_FALSE(cosine_similarity(0, 0, 1));
  EXPECT_FALSE(cosine_similarity(0, 1, 0));
  EXPECT_FALSE(cosine_similarity(kNaN, 1, 1));
  EXPECT_FALSE(cosine_similarity(1, kInfinity, 1));
  EXPECT_FALSE(cosine_similarity(1, 1, -1));
}

TEST(GradientNoiseScale, RecoversTheNoiseThatWasPutIn) {
  // With true gradient |G|^2 = 2 and noise trace 600, E|g_B|^2 = |G|^2 + 600 / B.
  const GradientNorm small{.batch = 32, .squared_norm = 2 + 600.0 / 32};
  const GradientNorm big{.batch = 256, .squared_norm = 2 + 600.0 / 256};
  EXPECT_NEAR(*gradient_noise_scale(small, big), 300, 1e-9);
}

TEST(GradientNoiseScale, OfTwoHalvesFollowsFromTheSameScalarsAsTheSimilarity) {
  // Halves a and b of a batch B: the estimate is B (|a|^2 + |b|^2 - 2 a.b) / (4 a.b).
  const double batch = 128, dot = 3, a = 10, b = 14;
  const GradientNorm half{.batch = batch / 2, .squared_norm = (a + b) / 2};
  const GradientNorm whole{.batch = batch, .squared_norm = (a + b + 2 * dot) / 4};
  EXPECT_NEAR(*gradient_noise_scale(half, whole), batch * (a + b - 2 * dot) / (4 * dot), 1e-9);
}

TEST(GradientNoiseScale, IsUndefinedWhereTheEstimateHasNoMeaning) {
  EXPECT_FALSE(gradient_noise_scale({32, 10}, {32, 5}));
  EXPECT_FALSE(gradient_noise_scale({64, 10}, {32, 5}));
  EXPECT_FALSE(gradient_noise_scale({0, 10}, {32, 5}));
  EXPECT_FALSE(gradient_noise_scale({32, 10}, {64, 5}));  // |G|^2 = 0
  EXPECT_FALSE(gradient_noise_scale({32, 5}, {64, 10}));  // negative noise
  EXPECT_FALSE(gradient_noise_scale({32, kNaN}, {64, 5}));
  EXPECT_FALSE(gradient_noise_scale({32, kInfinity}, {64, 5}));
}

}  // namespace
}  // namespace yoke::adapt
