#include "yoke/base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace yoke::base {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return input_error("odd");
  return value / 2;
}

Result<int> quarter(int value) {
  YOKE_TRY(const int once, half(value));
  YOKE_TRY(const int twice, half(once));
  return twice;
}

Status check_even(int value) {
  if (value % 2 != 0) return input_error("odd");
  return {};
}

Result<std::string> describe(int value) {
  YOKE_CHECK(check_even(value));
  return std::string("even");
}

TEST(Result, HoldsAValueOrAnError) {
  EXPECT_EQ(*half(8), 4);
  EXPECT_EQ(half(7).error().message, "odd");
}

TEST(Result, TryPassesTheErrorOn) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_EQ(*describe(2), "even");
  EXPECT_FALSE(describe(3).ok());
}

TEST(Result, AskingForTheWrongSideIsAFailure) {
  EXPECT_THROW(half(7).value(), Failure);
  EXPECT_THROW((void)half(8).error(), Failure);
  EXPECT_THROW((void)Status().error(), Failure);
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> made(std::make_unique<int>(5));
  const std::unique_ptr<int> taken = *std::move(made);
  EXPECT_EQ(*taken, 5);
}

}  // namespace
}  // namespace yoke::base
