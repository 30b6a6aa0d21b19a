// The arithmetic of ReproducibleSum (reproducible.h), one array operation each. Nothing here rounds by the processor's
// floating-point unit, so that neither its rounding mode nor flushing of denormals can change a bit.
//
// The range of f32, 2^-149 to 2^128, is cut into twelve limbs of 24 bits on a fixed grid: limb j counts multiples of
// 2^(24 j - 149). A value's scale is its highest limb: the largest j for which the value, rounded to a multiple of that
// limb, can differ from zero. Each element keeps the largest scale it has seen and exact sums of its addends in two
// limbs, upper (the scale itself) and lower (the limb below). Every addend is rounded to nearest (ties away from zero)
// to a multiple of the lower limb:
//
//   an addend of the element's scale   occupies both limbs and is exact;
//   one scale less                     reaches the lower limb only: there it is what its own upper limb would be;
//   less than that                     rounds to zero.
//
// So when a larger scale arrives, upper becomes lower (one scale more) or everything rounds to zero (more than one),
// and the sums are those that would be there had the largest value come first. Hence any order and any grouping of the
// additions ends in the same integers.
//
// Pure functions on the memory of one caller: one thread for each Limbs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace yoke::comm::detail {

inline constexpr unsigned kLimbBits = 24;
/// Scales beyond the finite ones. At kInfinite, upper and lower count the positive and the negative infinities.
inline constexpr std::uint8_t kInfinite = 64;
inline constexpr std::uint8_t kNotANumber = 128;
/// What |upper| and |lower| grow by with each addend, at most: 255 addends fit std::int32_t.
inline constexpr std::int32_t kLargestLimb = 1 << (kLimbBits - 1);

/// Sums of several elements, all zero at first. Int is std::int32_t or std::int64_t.
template <typename Int>
struct Limbs {
  explicit Limbs(std::size_t count) : scale(count), upper(count), lower(count) {}

  std::vector<std::uint8_t> scale;
  std::vector<Int> upper;
  std::vector<Int> lower;
};

/// Adds values[i] to element begin + i.
template <typename Int>
void add(Limbs<Int>& sums, std::size_t begin, std::span<const float> values);

/// Adds all that was added to `from`. Same sizes; not the same object.
template <typename Into, typename From>
void merge(Limbs<Into>& into, const Limbs<From>& from);

/// The sum of element begin + i in multiples of the lower limb of scales[i], which must be at least its own scale.
/// Packed sums of one scale add up as integers (modulo 2^64).
template <typename Int>
void pack(const Limbs<Int>& sums, std::size_t begin, std::span<const std::uint8_t> scales,
          std::span<std::int64_t> packed);

/// The f32 nearest to each packed sum, ties to even; infinite from 2^128 - 2^103 on. A sum of zero is +0.
void unpack(std::span<const std::uint8_t> scales, std::span<const std::int64_t> packed, std::span<float> out);

}  // namespace yoke::comm::detail
