#include "yoke/comm/reproducible/limbs.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace yoke::comm::detail {

namespace {

constexpr std::uint32_t kSpecialExponent = 255;  // infinities and NaN
constexpr std::uint32_t kFractionMask = 0x7fffff;
constexpr std::uint32_t kHiddenBit = 0x800000;
constexpr std::uint32_t kMagnitudeMask = 0x7fffffff;
constexpr std::uint32_t kInfiniteBits = kSpecialExponent << 23U;

std::uint32_t exponent_of(std::uint32_t bits) {
  return (bits >> 23U) & 0xffU;
}

template <typename Int>
struct Pair {
  Int upper;
  Int lower;
};

/// Sums of scale `from` at the scale `to`, not smaller.
template <typename Int>
Pair<Int> aligned(Int upper, Int lower, std::uint32_t from, std::uint32_t to) {
  return {.upper = to == from ? upper : Int{0}, .lower = to == from ? lower : (to == from + 1 ? upper : Int{0})};
}

/// value / 2^shift to nearest, ties away from zero. 1 <= shift <= 31.
std::uint32_t rounded_shift(std::uint32_t value, std::uint32_t shift) {
  return (value + (1U << (shift - 1U))) >> shift;
}

/// -value where the sign bit is set.
std::int32_t with_sign_of(std::uint32_t bits, std::uint32_t value) {
  const std::int32_t mask = static_cast<std::int32_t>(bits) >> 31;
  return (static_cast<std::int32_t>(value) ^ mask) - mask;
}

/// Adds the finite values; true if there are others. Without a branch, so that compilers turn it into vectors: all
/// arithmetic is on 32 bits, and the only state besides the sums is a maximum.
template <typename Int>
[[gnu::always_inline]] inline bool add_finite(const float* __restrict values, std::size_t count,
                                              std::uint8_t* __restrict scale, Int* __restrict upper,
                                              Int* __restrict lower) {
  std::uint32_t largest = 0;  // magnitude, as bits
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    largest = std::max(largest, bits & kMagnitudeMask);
    const bool special = exponent_of(bits) == kSpecialExponent;
    const std::uint32_t exponent = special ? 0 : exponent_of(bits);
    const std::uint32_t fraction = special ? 0 : bits & kFractionMask;
    // The value is significand * 2^(exponent - 150), denormals included.
    const std::uint32_t significand = exponent == 0 ? fraction << 1U : fraction | kHiddenBit;
    // (exponent + 23) / 24 without a division: exact for the 256 exponents.
    const std::uint32_t own_scale = ((exponent + 23U) * 171U) >> 12U;
    const std::uint32_t old_scale = scale[i];
    const std::uint32_t new_scale = std::max(old_scale, own_scale);
    const Pair<Int> sums = aligned(upper[i], lower[i], old_scale, new_scale);

    // In the upper limb the value is significand / 2^shift. From 25 on that rounds to zero, and 24 less is the shift
    // for the lower limb.
    const std::uint32_t shift = kLimbBits * new_scale + 1U - exponent;
    const std::uint32_t high = rounded_shift(significand, std::min(shift, 31U));
    const std::uint32_t rest = (significand << (kLimbBits - std::min(shift, kLimbBits))) - (high << kLimbBits);
    const std::uint32_t only = rounded_shift(significand, std::clamp(shift, 25U, 55U) - kLimbBits);
    const std::uint32_t low = shift <= kLimbBits ? rest : only;

    scale[i] = static_cast<std::uint8_t>(new_scale);
    upper[i] = sums.upper + with_sign_of(bits, high);
    lower[i] = sums.lower + with_sign_of(bits, low);
  }
  return largest >= kInfiniteBits;
}

template <typename Int>
void add_special(const float* values, std::size_t count, std::uint8_t* scale, Int* upper, Int* lower) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    if (exponent_of(bits) != kSpecialExponent) continue;
    const std::uint8_t own_scale = (bits & kFractionMask) == 0 ? kInfinite : kNotANumber;
    if (own_scale > scale[i]) {
      scale[i] = own_scale;
      upper[i] = 0;
      lower[i] = 0;
    }
    if (scale[i] == kInfinite) ++(bits >> 31U == 0 ? upper : lower)[i];
  }
}

#if defined(__x86_64__)
// The baseline of x86-64 has no shift by a different amount in each lane, hence no vectors for add_finite(); AVX2 has.
template <typename Int>
[[gnu::target("avx2")]] bool add_finite_avx2(const float* values, std::size_t count, std::uint8_t* scale, Int* upper,
                                             Int* lower) {
  return add_finite(values, count, scale, upper, lower);
}
#endif

template <typename Int>
bool add_finite_fastest(const float* values, std::size_t count, std::uint8_t* scale, Int* upper, Int* lower) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return add_finite_avx2(values, count, scale, upper, lower);
#endif
  return add_finite(values, count, scale, upper, lower);
}

template <typename Into, typename From>
void merge_arrays(std::size_t count, std::uint8_t* __restrict scale, Into* __restrict upper, Into* __restrict lower,
                  const std::uint8_t* __restrict from_scale, const From* __restrict from_upper,
                  const From* __restrict from_lower) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t old_scale = scale[i];
    const std::uint32_t other_scale = from_scale[i];
    const std::uint32_t new_scale = std::max(old_scale, other_scale);
    const Pair<Into> own = aligned(upper[i], lower[i], old_scale, new_scale);
    const Pair<From> other = aligned(from_upper[i], from_lower[i], other_scale, new_scale);
    scale[i] = static_cast<std::uint8_t>(new_scale);
    upper[i] = own.upper + other.upper;
    lower[i] = own.lower + other.lower;
  }
}

float unpacked_infinities(std::int64_t packed) {
  const bool positive = packed >> kLimbBits != 0;
  const bool negative = (packed & ((1 << kLimbBits) - 1)) != 0;
  if (positive && negative) return std::numeric_limits<float>::quiet_NaN();
  return positive ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
}

/// packed * 2^(24 (scale - 1) - 149), rounded once.
float unpacked_finite(std::uint8_t scale, std::int64_t packed) {
  if (packed == 0) return 0.0F;
  const std::uint32_t sign = packed < 0 ? 0x80000000U : 0U;
  const std::uint64_t magnitude =
      packed < 0 ? 0U - static_cast<std::uint64_t>(packed) : static_cast<std::uint64_t>(packed);
  const int leading_zeros = std::countl_zero(magnitude);
  // Biased by 127, and 1 for the smallest normal numbers, whose leading bit is number 23 above 2^-149.
  const int exponent = 63 - leading_zeros + static_cast<int>(kLimbBits) * (scale - 1) - 22;
  // Sums are multiples of 2^-149: cutting a denormal's zeros loses nothing.
  const std::uint64_t significand = magnitude << static_cast<unsigned>(leading_zeros);
  if (exponent <= 0) return std::bit_cast<float>(sign | static_cast<std::uint32_t>(significand >> (41 - exponent)));
  const auto kept = static_cast<std::uint32_t>(significand >> 40U);
  const std::uint64_t cut = significand & ((1ULL << 40U) - 1);
  const std::uint64_t half = 1ULL << 39U;
  const bool up = cut > half || (cut == half && (kept & 1U) != 0);
  // The hidden bit and a carry out of the significand both belong to the exponent: adding gets them there.
  const std::uint32_t bits = (static_cast<std::uint32_t>(exponent - 1) << 23U) + kept + (up ? 1U : 0U);
  return std::bit_cast<float>(sign | std::min(bits, kInfiniteBits));
}

}  // namespace

template <typename Int>
void add(Limbs<Int>& sums, std::size_t begin, std::span<const float> values) {
  std::uint8_t* const scale = sums.scale.data() + begin;
  Int* const upper = sums.upper.data() + begin;
  Int* const lower = sums.lower.data() + begin;
  if (add_finite_fastest(values.data(), values.size(), scale, upper, lower)) {
    add_special(values.data(), values.size(), scale, upper, lower);
  }
}

template <typename Into, typename From>
void merge(Limbs<Into>& into, const Limbs<From>& from) {
  merge_arrays(into.scale.size(), into.scale.data(), into.upper.data(), into.lower.data(), from.scale.data(),
               from.upper.data(), from.lower.data());
}

template <typename Int>
void pack(const Limbs<Int>& sums, std::size_t begin, std::span<const std::uint8_t> scales,
          std::span<std::int64_t> packed) {
  const std::uint8_t* const from = sums.scale.data() + begin;
  const Int* const upper = sums.upper.data() + begin;
  const Int* const lower = sums.lower.data() + begin;
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const Pair<Int> pair = aligned(upper[i], lower[i], from[i], scales[i]);
    // Unsigned, so that more addends than fit wrap around; whoever counts them reports it.
    const auto high = static_cast<std::uint64_t>(std::int64_t{pair.upper});
    const auto low = static_cast<std::uint64_t>(std::int64_t{pair.lower});
    packed[i] = static_cast<std::int64_t>((high << kLimbBits) + low);
  }
}

void unpack(std::span<const std::uint8_t> scales, std::span<const std::int64_t> packed, std::span<float> out) {
  for (std::size_t i = 0; i < packed.size(); ++i) {
    if (scales[i] < kInfinite) {
      out[i] = unpacked_finite(scales[i], packed[i]);
    } else {
      out[i] = scales[i] == kInfinite ? unpacked_infinities(packed[i]) : std::numeric_limits<float>::quiet_NaN();
    }
  }
}

template void add(Limbs<std::int32_t>&, std::size_t, std::span<const float>);
template void add(Limbs<std::int64_t>&, std::size_t, std::span<const float>);
template void merge(Limbs<std::int32_t>&, const Limbs<std::int32_t>&);
template void merge(Limbs<std::int64_t>&, const Limbs<std::int32_t>&);
template void merge(Limbs<std::int64_t>&, const Limbs<std::int64_t>&);
template void pack(const Limbs<std::int32_t>&, std::size_t, std::span<const std::uint8_t>, std::span<std::int64_t>);
template void pack(const Limbs<std::int64_t>&, std::size_t, std::span<const std::uint8_t>, std::span<std::int64_t>);

}  // namespace yoke::comm::detail
