#include "yoke/tensor/self_check.h"

#include <gtest/gtest.h>

namespace yoke::tensor {
namespace {

TEST(TorchSelfCheck, ThisMachineComputes) {
  const auto report = check_torch();
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_GE(report->threads, 1);
  EXPECT_FALSE(report->version.empty());
}

}  // namespace
}  // namespace yoke::tensor
