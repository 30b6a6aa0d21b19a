#include "yoke/plan/solve/tile.h"

namespace yoke::plan {
namespace {

// Two doubles are what every x86-64 and ARMv8 processor handles at once; `<` and `?:` become its min and max
// instructions, which compilers do not dare to use for loops over doubles.
using Pair = double __attribute__((vector_size(16)));

Pair smaller(Pair a, Pair b) {
  return a < b ? a : b;
}
Pair larger(Pair a, Pair b) {
  return a > b ? a : b;
}

// The part of `best` kept in registers while k runs.
constexpr int kRows = 4;
constexpr int kPairs = 2;

}  // namespace

void bottleneck_product(const Tile& front, const Tile& back, Tile& best) {
  for (int row = 0; row < kTileSide; row += kRows) {
    for (int column = 0; column < kTileSide; column += 2 * kPairs) {
      Pair sum[kRows][kPairs];
      for (int r = 0; r < kRows; ++r) {
        for (int p = 0; p < kPairs; ++p) sum[r][p] = reinterpret_cast<const Pair*>(best.row(row + r) + column)[p];
      }
      for (int k = 0; k < kTileSide; ++k) {
        const auto* from = reinterpret_cast<const Pair*>(back.row(k) + column);
        for (int r = 0; r < kRows; ++r) {
          const double value = front.row(row + r)[k];
          const Pair both{value, value};
          for (int p = 0; p < kPairs; ++p) sum[r][p] = smaller(sum[r][p], larger(both, from[p]));
        }
      }
      for (int r = 0; r < kRows; ++r) {
        for (int p = 0; p < kPairs; ++p) reinterpret_cast<Pair*>(best.row(row + r) + column)[p] = sum[r][p];
      }
    }
  }
}

}  // namespace yoke::plan
