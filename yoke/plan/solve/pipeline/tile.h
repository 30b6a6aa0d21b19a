// Square tiles of doubles and the one operation the pipeline solver spends its time in: the bottleneck product.
//
// Choosing the best split of a segment is best[i][j] = min over k of max(front[i][k], back[k][j]): a matrix product
// with min for plus and max for times. Both are exact, so any order of evaluation gives the same bits.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <vector>

namespace yoke::plan {

inline constexpr int kTileSide = 32;  // three tiles fit a level-1 cache of 32 KiB
inline constexpr double kUndefined = std::numeric_limits<double>::infinity();

/// Row-major; entries that mean nothing are kUndefined.
struct alignas(64) Tile {
  std::array<double, kTileSide * kTileSide> values;

  double* row(int r) { return values.data() + r * kTileSide; }
  const double* row(int r) const { return values.data() + r * kTileSide; }
};

/// best = min(best, front x back) in the algebra above.
void bottleneck_product(const Tile& front, const Tile& back, Tile& best);

/// best[i] = min(best[i], max(front[i], back)) for i < count.
void bottleneck_accumulate(const double* front, double back, double* best, int count);

/// One value per segment (first, last) of states, 0 <= first <= last < size, in tiles; kUndefined elsewhere.
class SegmentTable {
 public:
  explicit SegmentTable(int size)
      : size_(size), side_((size + kTileSide - 1) / kTileSide), tiles_(index(side_ - 1, side_ - 1) + 1) {
    for (Tile& tile : tiles_) tile.values.fill(kUndefined);
  }

  int size() const { return size_; }
  /// Tiles per row and column.
  int side() const { return side_; }
  Tile& tile(int row, int column) { return tiles_[index(row, column)]; }
  const Tile& tile(int row, int column) const { return tiles_[index(row, column)]; }
  double& at(int first, int last) {
    return tile(first / kTileSide, last / kTileSide).row(first % kTileSide)[last % kTileSide];
  }
  double at(int first, int last) const {
    return tile(first / kTileSide, last / kTileSide).row(first % kTileSide)[last % kTileSide];
  }

 private:
  // Columns of the upper triangle one after another.
  std::size_t index(int row, int column) const {
    return static_cast<std::size_t>(column) * static_cast<std::size_t>(column + 1) / 2 + static_cast<std::size_t>(row);
  }

  int size_;
  int side_;
  std::vector<Tile> tiles_;
};

}  // namespace yoke::plan
