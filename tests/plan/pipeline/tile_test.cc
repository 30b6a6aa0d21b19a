#include "yoke/plan/solve/pipeline/tile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/plan/pipeline/random_graph.h"

namespace yoke::plan {
namespace {

TEST(BottleneckProduct, EqualsTheDefinition) {
  Random random(7);
  for (int round = 0; round < 50; ++round) {
    Tile front;
    Tile back;
    Tile best;
    for (Tile* tile : {&front, &back, &best}) {
      for (double& value : tile->values) value = random.pick(0, 9) == 0 ? kUndefined : random.pick(-500, 500) / 7.0;
    }
    Tile expected = best;
    for (int i = 0; i < kTileSide; ++i) {
      for (int j = 0; j < kTileSide; ++j) {
        double& value = expected.row(i)[j];
        for (int k = 0; k < kTileSide; ++k) value = std::min(value, std::max(front.row(i)[k], back.row(k)[j]));
      }
    }
    bottleneck_product(front, back, best);
    ASSERT_EQ(best.values, expected.values);
  }
}

TEST(SegmentTable, KeepsEverySegmentApart) {
  const int size = 2 * kTileSide + 5;
  SegmentTable table(size);
  EXPECT_EQ(table.at(3, size - 1), kUndefined);
  for (int last = 0; last < size; ++last) {
    for (int first = 0; first <= last; ++first) table.at(first, last) = first * 1000 + last;
  }
  for (int last = 0; last < size; ++last) {
    for (int first = 0; first <= last; ++first) ASSERT_EQ(table.at(first, last), first * 1000 + last);
  }
}

}  // namespace
}  // namespace yoke::plan
