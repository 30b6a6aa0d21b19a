#include "yoke/base/error.h"

#include <gtest/gtest.h>

namespace yoke::base {
namespace {

TEST(Error, ExitCodesAreTheContract) {
  EXPECT_EQ(exit_code(ErrorKind::kInternal), 1);
  EXPECT_EQ(exit_code(ErrorKind::kInput), 2);
  EXPECT_EQ(exit_code(ErrorKind::kInfeasible), 3);
  EXPECT_EQ(exit_code(ErrorKind::kPeer), 4);
}

TEST(Error, KindsHaveTheNamesThatScriptsRead) {
  EXPECT_EQ(to_string(ErrorKind::kInput), "input");
  EXPECT_EQ(to_string(ErrorKind::kInfeasible), "infeasible");
  EXPECT_EQ(to_string(ErrorKind::kPeer), "peer");
  EXPECT_EQ(to_string(ErrorKind::kInternal), "internal");
}

TEST(Error, WhereLeavesOutWhatIsUnknown) {
  EXPECT_EQ((Where{"a.yaml", 3, "nodes[0].speed"}.to_string()), "a.yaml:3: nodes[0].speed");
  EXPECT_EQ((Where{.file = "a.yaml", .field = "speed"}.to_string()), "a.yaml: speed");
  EXPECT_EQ((Where{.field = "--gbs"}.to_string()), "--gbs");
  EXPECT_EQ(Where{}.to_string(), "");
}

TEST(Error, ReadsAsOneLine) {
  EXPECT_EQ(input_error("found 0, expected 1", {.file = "x", .line = 2}).to_string(), "x:2: found 0, expected 1");
  EXPECT_EQ(peer_error("node1 is gone").to_string(), "node1 is gone");
}

TEST(Require, ThrowsAnInternalFailureThatNamesThisFile) {
  EXPECT_NO_THROW(require(true, "fine"));
  try {
    require(false, "1 == 2");
    FAIL() << "expected a Failure";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().kind, ErrorKind::kInternal);
    EXPECT_NE(failure.error().where.file.find("error_test.cc"), std::string::npos);
    EXPECT_GT(failure.error().where.line, 0);
  }
}

}  // namespace
}  // namespace yoke::base
