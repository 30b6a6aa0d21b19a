#include "yoke/comm/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace yoke::comm {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return 1;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF64:
    case DType::kI64:
      return 8;
  }
  return 1;
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kU8:
      return "u8";
  }
  return "unknown dtype";
}

std::string_view to_string(Reduction reduction) {
  return reduction == Reduction::kSum ? "sum" : "max";
}

float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);  // stay a NaN when the tail is cut
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13U));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
  // Zero and denormals: fraction * 2^-24, exact in f32.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

std::uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13U) & 0x1ffU));
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // 65520 and more round to infinity
  if (magnitude < 0x38800000U) {
    // Below 2^-14 the result is a denormal: a float whose last place is 2^-24 rounds exactly as we need.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3f000000U));
  }
  const std::uint32_t odd = (magnitude >> 13U) & 1U;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13U));
}

namespace {

/// a (reduction) b on 16-bit floats, through f32.
template <float (*widen)(std::uint16_t), std::uint16_t (*narrow)(float)>
struct Half {
  using Value = std::uint16_t;
  static Value sum(Value a, Value b) { return narrow(widen(a) + widen(b)); }
  static Value max(Value a, Value b) {
    const float x = widen(a);
    const float y = widen(b);
    return std::isnan(x) || x >= y ? a : b;
  }
};

template <typename T>
struct Real {
  using Value = T;
  static T sum(T a, T b) { return a + b; }
  // Written so that compilers make two vector instructions of it: a NaN on either side wins.
  static T max(T a, T b) { return a != a || a >= b ? a : b; }
};

template <typename T, typename Unsigned>
struct Integer {
  using Value = T;
  static T sum(T a, T b) { return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)); }
  static T max(T a, T b) { return a > b ? a : b; }
};

/// memcpy instead of pointers of the type: callers' memory may be bytes of any origin. Compilers see through it.
template <typename Value, Value (*combine)(Value, Value)>
void loop(std::byte* into, const std::byte* a, const std::byte* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Value x;
    Value y;
    std::memcpy(&x, a + i * sizeof(Value), sizeof(Value));
    std::memcpy(&y, b + i * sizeof(Value), sizeof(Value));
    const Value z = combine(x, y);
    std::memcpy(into + i * sizeof(Value), &z, sizeof(Value));
  }
}

template <typename Math>
void reduce_as(std::byte* into, const std::byte* a, const std::byte* b, std::size_t count, Reduction reduction) {
  using Value = typename Math::Value;
  if (reduction == Reduction::kSum) {
    loop<Value, Math::sum>(into, a, b, count);
  } else {
    loop<Value, Math::max>(into, a, b, count);
  }
}

}  // namespace

void reduce(std::byte* into, const std::byte* a, const std::byte* b, std::size_t count, DType dtype,
            Reduction reduction) {
  switch (dtype) {
    case DType::kF32:
      return reduce_as<Real<float>>(into, a, b, count, reduction);
    case DType::kF64:
      return reduce_as<Real<double>>(into, a, b, count, reduction);
    case DType::kBF16:
      return reduce_as<Half<bf16_to_f32, f32_to_bf16>>(into, a, b, count, reduction);
    case DType::kF16:
      return reduce_as<Half<f16_to_f32, f32_to_f16>>(into, a, b, count, reduction);
    case DType::kI32:
      return reduce_as<Integer<std::int32_t, std::uint32_t>>(into, a, b, count, reduction);
    case DType::kI64:
      return reduce_as<Integer<std::int64_t, std::uint64_t>>(into, a, b, count, reduction);
    case DType::kU8:
      return reduce_as<Integer<std::uint8_t, std::uint8_t>>(into, a, b, count, reduction);
  }
}

void reduce(std::byte* into, const std::byte* from, std::size_t count, DType dtype, Reduction reduction) {
  reduce(into, into, from, count, dtype, reduction);
}

}  // namespace yoke::comm
