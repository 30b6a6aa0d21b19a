// What a reproducible sum must be, computed another way: from its definition, and exactly.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace yoke::comm::testing {

inline float largest_magnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

/// The definition, for finite values: each is rounded to the grid of the largest, the integers are added, and the sum
/// is rounded once. A long double holds any of these integers.
inline float defined_sum(std::span<const float> values) {
  const float largest = largest_magnitude(values);
  if (largest == 0) return 0;
  const int leading_bit = std::ilogb(largest) + 149;
  const int grid = 24 * ((leading_bit + 1) / 24 - 1) - 149;
  std::int64_t sum = 0;
  for (const float value : values) sum += std::llround(std::ldexp(static_cast<double>(value), -grid));
  return static_cast<float>(std::ldexp(static_cast<long double>(sum), grid));
}

/// The exact sum of finite values, as a fixed-point number of 12 limbs of 32 bits above 2^-149.
class ExactSum {
 public:
  void add(float value, int sign = 1) {
    int exponent = 0;
    const auto significand = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 24));
    const int bit = exponent - 24 + 149;  // may be negative for denormals, whose low bits are zero then
    const std::int64_t digits = bit < 0 ? significand / (std::int64_t{1} << -bit) : significand;
    const int place = std::max(bit, 0);
    const auto limb = static_cast<std::size_t>(place / 32);
    const std::int64_t shifted = digits * (std::int64_t{1} << (place % 32));  // below 2^56
    limbs_[limb] += sign * (shifted % kBase);
    limbs_[limb + 1] += sign * (shifted / kBase);
  }

  /// Within 2^-60 of the exact value, relatively.
  long double value() const {
    auto limbs = limbs_;
    const bool negative = carried(limbs) < 0;
    if (negative) {
      limbs = limbs_;
      for (std::int64_t& limb : limbs) limb = -limb;
      carried(limbs);
    }
    long double sum = 0;
    for (std::size_t i = limbs.size(); i-- > 0;) {
      sum += std::ldexp(static_cast<long double>(limbs[i]), 32 * static_cast<int>(i) - 149);
    }
    return negative ? -sum : sum;
  }

 private:
  static constexpr std::int64_t kBase = std::int64_t{1} << 32;
  using Limbs = std::array<std::int64_t, 12>;

  /// Brings all limbs but the last into 0 .. 2^32-1; returns the last, which has the sign.
  static std::int64_t carried(Limbs& limbs) {
    for (std::size_t i = 0; i + 1 < limbs.size(); ++i) {
      std::int64_t rest = limbs[i] % kBase;
      if (rest < 0) rest += kBase;
      limbs[i + 1] += (limbs[i] - rest) / kBase;
      limbs[i] = rest;
    }
    return limbs.back();
  }

  Limbs limbs_{};
};

/// The error that reproducible.h allows: of the grid, and of the one rounding of the result.
inline long double allowed_error(std::span<const float> values, float result) {
  const long double grid = std::ldexp(static_cast<long double>(largest_magnitude(values)), -24);
  const float magnitude = std::fabs(result);
  const float next = std::nextafter(magnitude, std::numeric_limits<float>::infinity());
  const long double half_place = (static_cast<long double>(next) - static_cast<long double>(magnitude)) / 2;
  return static_cast<long double>(values.size() - 1) * grid + half_place;
}

}  // namespace yoke::comm::testing
