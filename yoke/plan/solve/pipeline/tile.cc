#include "yoke/plan/solve/pipeline/tile.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace yoke::plan {
namespace {

// Vectors of doubles, on which `<` and `?:` become the processor's min and max instructions; compilers do not dare to
// use those for loops over doubles. Two at once is what every x86-64 and ARMv8 processor can do.
using Two = double __attribute__((vector_size(16)));
using Four = double __attribute__((vector_size(32)));

// The part of `best` that stays in registers while k runs: four rows of two vectors. A compiler only keeps it there
// when every index is a constant, hence the folds over integer sequences.
using Rows = std::make_integer_sequence<int, 4>;

template <typename Vector, int... r>
[[gnu::always_inline]] inline void multiply_block(const Tile& front, const Tile& back, Tile& best, int row, int column,
                                                  std::integer_sequence<int, r...> /*rows*/) {
  Vector* const target[] = {reinterpret_cast<Vector*>(best.row(row + r) + column)...};
  const double* const factors[] = {front.row(row + r)...};
  Vector left[] = {target[r][0]...};
  Vector right[] = {target[r][1]...};
  for (int k = 0; k < kTileSide; ++k) {
    const auto* const values = reinterpret_cast<const Vector*>(back.row(k) + column);
    const Vector back_left = values[0];
    const Vector back_right = values[1];
    const Vector front_value[] = {(factors[r][k] - Vector{})...};  // in every element; - 0 changes no number
    const Vector larger_left[] = {(front_value[r] > back_left ? front_value[r] : back_left)...};
    const Vector larger_right[] = {(front_value[r] > back_right ? front_value[r] : back_right)...};
    ((left[r] = left[r] < larger_left[r] ? left[r] : larger_left[r]), ...);
    ((right[r] = right[r] < larger_right[r] ? right[r] : larger_right[r]), ...);
  }
  ((target[r][0] = left[r], target[r][1] = right[r]), ...);
}

template <typename Vector>
[[gnu::always_inline]] inline void multiply(const Tile& front, const Tile& back, Tile& best) {
  constexpr int kColumns = 2 * sizeof(Vector) / sizeof(double);
  for (int row = 0; row < kTileSide; row += static_cast<int>(Rows::size())) {
    for (int column = 0; column < kTileSide; column += kColumns) {
      multiply_block<Vector>(front, back, best, row, column, Rows{});
    }
  }
}

template <typename Vector>
[[gnu::always_inline]] inline void accumulate(const double* front, double back, double* best, int count) {
  constexpr int kWidth = sizeof(Vector) / sizeof(double);
  const Vector backs = back - Vector{};
  int i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    Vector fronts;
    Vector value;
    std::memcpy(&fronts, front + i, sizeof(Vector));
    std::memcpy(&value, best + i, sizeof(Vector));
    const Vector larger = fronts > backs ? fronts : backs;
    value = value < larger ? value : larger;
    std::memcpy(best + i, &value, sizeof(Vector));
  }
  for (; i < count; ++i) best[i] = std::min(best[i], std::max(front[i], back));
}

#if defined(__x86_64__)
[[gnu::target("avx")]] void multiply_avx(const Tile& front, const Tile& back, Tile& best) {
  multiply<Four>(front, back, best);
}
[[gnu::target("avx")]] void accumulate_avx(const double* front, double back, double* best, int count) {
  accumulate<Four>(front, back, best, count);
}
#endif

}  // namespace

void bottleneck_product(const Tile& front, const Tile& back, Tile& best) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx")) return multiply_avx(front, back, best);
#endif
  multiply<Two>(front, back, best);
}

void bottleneck_accumulate(const double* front, double back, double* best, int count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx")) return accumulate_avx(front, back, best, count);
#endif
  accumulate<Two>(front, back, best, count);
}

}  // namespace yoke::plan
