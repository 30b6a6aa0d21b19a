#include "yoke/comm/op.h"

#include <gtest/gtest.h>

#include "yoke/base/error.h"

namespace yoke::comm {
namespace {

TEST(Op, PartsCoverEverythingOnce) {
  for (const std::size_t count : {0UL, 1UL, 5UL, 6UL, 7UL, 1000UL}) {
    for (int size = 1; size <= 9; ++size) {
      std::size_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Part part = part_of(count, size, rank);
        EXPECT_EQ(part.begin, next);
        EXPECT_LE(part_of(count, size, size - 1).count, part.count) << "earlier parts are not shorter";
        next = part.begin + part.count;
      }
      EXPECT_EQ(next, count);
    }
  }
  EXPECT_THROW(part_of(1, 0, 0), base::Failure);
  EXPECT_THROW(part_of(1, 2, 2), base::Failure);
}

TEST(Op, SignaturesSayWhatWasCalled) {
  float data[4] = {};
  EXPECT_EQ(signature_of(all_reduce(std::span(data), Reduction::kMax), 7).to_string(), "all_reduce #7 of 4 f32 (max)");
  EXPECT_EQ(signature_of(broadcast(std::span(data), 2), 1).to_string(), "broadcast #1 of 4 f32 from rank 2");
  EXPECT_EQ(signature_of(barrier(), 3).to_string(), "barrier #3");
  const auto sent = signature_of(send(std::span<const float>(data), 1, 5), 9);
  EXPECT_EQ(sent, signature_of(receive(std::span(data), 0, 6), 2)) << "both sides of a message";
  EXPECT_EQ(sent.to_string(), "a message of 4 f32");
}

}  // namespace
}  // namespace yoke::comm
