// Element types on the wire and what it means to add or compare them. Pure functions: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace yoke::comm {

enum class DType : std::uint8_t { kF32, kF64, kBF16, kF16, kI32, kI64, kU8 };
enum class Reduction : std::uint8_t { kSum, kMax };

std::size_t size_of(DType dtype);
std::string_view to_string(DType dtype);
std::string_view to_string(Reduction reduction);

/// The DType of a C++ type; bf16 and f16 have none, name them.
template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kF32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kF64;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::kI64;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::kU8;
}

/// into[i] = into[i] (reduction) from[i] for `count` elements. bf16 and f16 are computed in f32 and rounded to nearest
/// even; integers wrap around; a maximum with a NaN is NaN. The ranges must not overlap.
void reduce(std::byte* into, const std::byte* from, std::size_t count, DType dtype, Reduction reduction);
/// into[i] = a[i] (reduction) b[i]. `into` may be `a` or `b`.
void reduce(std::byte* into, const std::byte* a, const std::byte* b, std::size_t count, DType dtype,
            Reduction reduction);

/// One value of the 16-bit types, for tests and conversions.
float bf16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);

}  // namespace yoke::comm
