#include "yoke/comm/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "yoke/base/rng.h"

namespace yoke::comm {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
std::vector<T> combine(std::vector<T> into, const std::vector<T>& from, DType dtype, Reduction reduction) {
  reduce(reinterpret_cast<std::byte*>(into.data()), reinterpret_cast<const std::byte*>(from.data()), into.size(), dtype,
         reduction);
  return into;
}

TEST(DType, AddsAndComparesEveryType) {
  EXPECT_EQ(combine<float>({1, -2}, {0.5F, -3}, DType::kF32, Reduction::kSum), (std::vector<float>{1.5F, -5}));
  EXPECT_EQ(combine<double>({1, -2}, {0.5, -3}, DType::kF64, Reduction::kMax), (std::vector<double>{1, -2}));
  EXPECT_EQ(combine<std::int32_t>({7, -7}, {1, 9}, DType::kI32, Reduction::kMax), (std::vector<std::int32_t>{7, 9}));
  EXPECT_EQ(combine<std::uint8_t>({200, 1}, {100, 2}, DType::kU8, Reduction::kSum), (std::vector<std::uint8_t>{44, 3}))
      << "integers wrap around";
  const auto top = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(combine<std::int64_t>({top}, {1}, DType::kI64, Reduction::kSum),
            (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min()}));
}

TEST(DType, AMaximumWithNotANumberIsNotANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto result = combine<float>({nan, 1, -kInfinity}, {1, nan, -5}, DType::kF32, Reduction::kMax);
  EXPECT_TRUE(std::isnan(result[0]));
  EXPECT_TRUE(std::isnan(result[1]));
  EXPECT_EQ(result[2], -5);
  const std::uint16_t half_nan = f32_to_f16(nan);
  EXPECT_TRUE(std::isnan(
      f16_to_f32(combine<std::uint16_t>({half_nan}, {f32_to_f16(3)}, DType::kF16, Reduction::kMax).front())));
}

TEST(DType, EveryHalfSurvivesTheWayThroughSingle) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (std::isnan(f16_to_f32(half))) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(f16_to_f32(half)))));
    } else {
      EXPECT_EQ(f32_to_f16(f16_to_f32(half)), half);
    }
    if (!std::isnan(bf16_to_f32(half))) {
      EXPECT_EQ(f32_to_bf16(bf16_to_f32(half)), half);
    }
  }
}

TEST(DType, HalvesRoundToTheNearestEven) {
  EXPECT_EQ(f32_to_f16(65504), 0x7bff);
  EXPECT_EQ(f32_to_f16(65519.996F), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520), 0x7c00) << "infinity";
  EXPECT_EQ(f32_to_f16(0x1p-24F), 0x0001) << "the smallest";
  EXPECT_EQ(f32_to_f16(0x1p-25F), 0x0000) << "a tie goes to even";
  EXPECT_EQ(f32_to_f16(0x1.8p-25F), 0x0001);
  EXPECT_EQ(f32_to_f16(-0.0F), 0x8000);
  EXPECT_EQ(f32_to_bf16(1.00390625F), 0x3f80) << "a tie goes to even";
  EXPECT_EQ(f32_to_bf16(1.01171875F), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80) << "rounds up to infinity";
}

/// The definition, by search over all halves: the nearest, and of two the even one.
TEST(DType, HalvesAreTheNearestOnes) {
  base::Stream random({.seed = 3});
  for (int i = 0; i < 2000; ++i) {
    const float value = std::ldexp(static_cast<float>(random.uniform()), static_cast<int>(random.below(40)) - 26);
    const std::uint16_t found = f32_to_f16(value);
    const double error = std::abs(static_cast<double>(f16_to_f32(found)) - value);
    for (const int step : {-1, 1}) {
      const auto next = static_cast<std::uint16_t>(found + step);
      if (found == 0 || !std::isfinite(f16_to_f32(next))) continue;
      const double other = std::abs(static_cast<double>(f16_to_f32(next)) - value);
      EXPECT_LE(error, other) << value;
      if (error == other) {
        EXPECT_EQ(found % 2, 0) << value;
      }
    }
  }
}

}  // namespace
}  // namespace yoke::comm
