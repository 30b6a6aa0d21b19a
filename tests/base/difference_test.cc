#include "yoke/base/difference.h"

#include <gtest/gtest.h>

namespace yoke::base {
namespace {

TEST(Difference, IsNamedByItsLine) {
  EXPECT_EQ(first_difference("a\nb\nc", "a\nx\nc"), "line 2, `b` and `x`");
  EXPECT_EQ(first_difference("a\n", "a\nb\n"), "line 2, `` and `b`");
  EXPECT_EQ(first_difference("a", "a\n"), "line 1, `a` and `a`") << "only the end of the line is missing";
}

}  // namespace
}  // namespace yoke::base
