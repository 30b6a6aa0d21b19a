// What the tests of file readers share: the reference data and the shape of a good error.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "yoke/base/error.h"
#include "yoke/base/files.h"
#include "yoke/base/result.h"

namespace yoke::testing {

inline std::string shared_data() {
  return yoke::testing::kSharedData;
}

/// Skips the running test, and says why, where the reference data is absent.
#define YOKE_NEEDS_SHARED_DATA()                              \
  if (!std::filesystem::exists(yoke::testing::shared_data())) \
  GTEST_SKIP() << "no reference data in " << yoke::testing::kSharedData

inline std::string read_text(const std::string& path) {
  const auto text = base::read_file(path);
  EXPECT_TRUE(text.ok()) << text.error().to_string();
  return text.ok() ? *text : "";
}

/// Expects an input error that says where it is and whose line contains `part`.
template <typename T>
void expect_input_error(const base::Result<T>& result, const std::string& part) {
  ASSERT_FALSE(result.ok()) << "expected an error with: " << part;
  const base::Error& error = result.error();
  EXPECT_EQ(error.kind, base::ErrorKind::kInput) << error.to_string();
  EXPECT_NE(error.where.file + error.where.field, "") << "says no place: " << error.to_string();
  EXPECT_THAT(error.to_string(), ::testing::HasSubstr(part));
  EXPECT_EQ(error.to_string().find('\n'), std::string::npos) << "more than one line: " << error.to_string();
  EXPECT_LT(error.to_string().size(), 2000U);
}

}  // namespace yoke::testing
