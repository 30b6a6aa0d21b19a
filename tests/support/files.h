// What the tests of file readers share: the reference data, throw-away folders, and the shape of a good error.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "yoke/base/error.h"
#include "yoke/base/files.h"
#include "yoke/base/result.h"

namespace yoke::testing {

inline std::string shared_data() {
  return YOKE_SHARED_DATA;
}

/// Skips the running test, and says why, where the reference data is absent.
#define YOKE_NEEDS_SHARED_DATA()                              \
  if (!std::filesystem::exists(yoke::testing::shared_data())) \
  GTEST_SKIP() << "no reference data in " << YOKE_SHARED_DATA

/// A folder of one test, removed with everything in it when the test ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "yoke-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  /// Writes a file, making its folders; returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    EXPECT_TRUE(base::publish_file(path(name), text).ok());
    return path(name);
  }

 private:
  std::string path_;
};

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
