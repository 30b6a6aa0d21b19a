// All segments of a level at once: the bottleneck product of pipedream_level.h in tiles. Tiles that cannot improve a
// result are skipped by comparing the least values of the factors with the largest value reached so far; the most
// promising factors come first, so that most are skipped. Rows of tiles are independent, one thread takes one at a
// time.
#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "yoke/plan/solve/pipeline/pipedream_level.h"

namespace yoke::plan {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

/// Calls work(0), ..., work(count - 1), each once, on `threads` threads. `work` must not throw.
void for_each_parallel(int count, int threads, const std::function<void(int)>& work) {
  std::atomic<int> next{0};
  const auto loop = [&] {
    for (int item = next++; item < count; item = next++) work(item);
  };
  std::vector<std::jthread> helpers;
  for (int t = 1; t < std::min(threads, count); ++t) helpers.emplace_back(loop);
  loop();
}

double least(const Tile& tile) {
  return *std::ranges::min_element(tile.values);
}

/// back(q, k, j) for one q, with the least value of each tile.
struct BackTable {
  explicit BackTable(int size)
      : values(size), least(at(values.side()) * at(values.side()), kUndefined), side(values.side()) {}

  double& least_of(int row, int column) { return least[at(row) * at(side) + at(column)]; }
  double least_of(int row, int column) const { return least[at(row) * at(side) + at(column)]; }

  SegmentTable values;
  std::vector<double> least;
  int side;
};

void fill(const PipedreamLevel& level, int q, int row, BackTable& table) {
  const int size = level.states->count;
  for (int column = row; column < table.side; ++column) {
    Tile& tile = table.values.tile(row, column);
    for (int k = row * kTileSide; k < std::min(size, (row + 1) * kTileSide); ++k) {
      double* out = tile.row(k % kTileSide);
      for (int j = std::max(k + 1, column * kTileSide); j < std::min(size, (column + 1) * kTileSide); ++j) {
        out[j % kTileSide] = level.back(k, j, q);
      }
    }
    table.least_of(row, column) = least(tile);
  }
}

/// Solves one row of tiles: all segments whose first state lies in it.
class TileRow {
 public:
  TileRow(const PipedreamLevel& level, const std::vector<BackTable>& backs, int row, SegmentTable& result)
      : level_(level), backs_(backs), row_(row), side_(result.side()), result_(result) {
    tiles_.resize(at(level.machines + 1) * at(side_));
    least_.resize(tiles_.size(), kUndefined);
  }

  void solve() {
    for (int m = 1; m <= level_.machines; ++m) {
      for (int column = row_; column < side_; ++column) {
        start(m, column);
        if (m > 1) improve(m, column);
        least_[index(m, column)] = least(tiles_[index(m, column)]);
      }
    }
    for (int column = row_; column < side_; ++column) {
      result_.tile(row_, column) = tiles_[index(level_.machines, column)];
    }
  }

 private:
  struct Factors {
    double bound;  // no product of the two is less
    int q;
    int middle;
  };

  std::size_t index(int m, int column) const { return at(m) * at(side_) + at(column); }

  template <typename Visit>
  void for_each_segment(int column, Visit visit) const {
    const int size = level_.states->count;
    for (int i = row_ * kTileSide; i < std::min(size, (row_ + 1) * kTileSide); ++i) {
      for (int j = std::max(i, column * kTileSide); j < std::min(size, (column + 1) * kTileSide); ++j) visit(i, j);
    }
  }

  /// The unsplit stages, or what fewer machines reach.
  void start(int m, int column) {
    Tile& tile = tiles_[index(m, column)];
    tile.values.fill(kUndefined);
    for_each_segment(column, [&](int i, int j) {
      double& value = tile.row(i % kTileSide)[j % kTileSide];
      value = level_.unsplit(i, j, m);
      if (level_.fewer && m > 1 && j > i) {
        value = std::min(value, tiles_[index(m - 1, column)].row(i % kTileSide)[j % kTileSide]);
      }
    });
  }

  double largest(int m, int column) const {
    const Tile& tile = tiles_[index(m, column)];
    double value = -kUndefined;
    for_each_segment(column, [&](int i, int j) { value = std::max(value, tile.row(i % kTileSide)[j % kTileSide]); });
    return value;
  }

  void improve(int m, int column) {
    std::vector<Factors> factors;
    for (int q = 1; q <= std::min(level_.max_replicas(), m - 1); ++q) {
      for (int middle = row_; middle <= column; ++middle) {
        const double bound = std::max(least_[index(m - q, middle)], backs_[at(q - 1)].least_of(middle, column));
        if (bound < kUndefined) factors.push_back({bound, q, middle});
      }
    }
    std::ranges::sort(factors, {}, &Factors::bound);
    Tile& best = tiles_[index(m, column)];
    double worst = kUndefined;
    for (std::size_t f = 0; f < factors.size(); ++f) {
      constexpr std::size_t kOften = 4;  // finding the worst value costs about a tenth of a product
      if (f % kOften == 0) worst = largest(m, column);
      const auto& [bound, q, middle] = factors[f];
      if (bound >= worst) return;
      const Tile& front = tiles_[index(m - q, middle)];
      const Tile& back = backs_[at(q - 1)].values.tile(middle, column);
      if (level_.memory_bytes) {
        bottleneck_product(front, fitting(back, m, q, middle, column), best);
      } else {
        bottleneck_product(front, back, best);
      }
    }
  }

  /// `back` without the stages that exceed the memory when m machines are used up to them.
  Tile fitting(const Tile& back, int m, int q, int middle, int column) const {
    Tile tile = back;
    for (int k = 0; k < kTileSide; ++k) {
      for (int j = 0; j < kTileSide; ++j) {
        double& value = tile.row(k)[j];
        if (value == kUndefined) continue;
        if (!level_.fits(middle * kTileSide + k, column * kTileSide + j, q, m)) value = kUndefined;
      }
    }
    return tile;
  }

  const PipedreamLevel& level_;
  const std::vector<BackTable>& backs_;
  int row_;
  int side_;
  SegmentTable& result_;  // other rows are written by other threads
  std::vector<Tile> tiles_;
  std::vector<double> least_;
};

}  // namespace

SegmentTable solve_all_segments(const PipedreamLevel& level, int threads) {
  const int size = level.states->count;
  SegmentTable result(size);
  std::vector<BackTable> backs;
  const int most = std::min(level.max_replicas(), level.machines - 1);
  for (int q = 1; q <= most; ++q) backs.emplace_back(size);
  const int side = result.side();
  for_each_parallel(most * side, threads,
                    [&](int item) { fill(level, 1 + item / side, item % side, backs[at(item / side)]); });
  for_each_parallel(side, threads, [&](int row) { TileRow(level, backs, row, result).solve(); });
  return result;
}

}  // namespace yoke::plan
