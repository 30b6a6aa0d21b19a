// What tests of whole jobs share: a folder with a small job in it, the real program, and what a run has left.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include "yoke/base/document.h"
#include "yoke/base/text.h"

namespace yoke::testing {

/// Long enough for a machine that is busy with other tests.
inline constexpr std::chrono::seconds kPatience{120};

/// Bits are the same on any cluster: 64 samples in steps of 16.
inline constexpr const char* kSmallJob =
    "model: {name: mlp}\n"
    "data: {name: synthetic, limit: 64, shape: [1, 8, 8], classes: 4}\n"
    "batch: {global: 16, local: 4}\n"
    "optimizer: {lr: 0.01}\n"
    "epochs: 2\n"
    "reproducible: true\n";
inline constexpr int kSmallJobSteps = 8;

class WholeJob : public ::testing::Test {
 protected:
  /// The words of a command in one line for a shell.
  static std::string line(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

  /// Runs to the end, expects the exit code and returns all that was printed.
  static std::string finish(Process& process, int expected_code = 0) {
    EXPECT_TRUE(process.wait(kPatience)) << process.output();
    EXPECT_EQ(process.exit_code(), expected_code) << process.output();
    return process.output();
  }
  static std::string run(const std::vector<std::string>& command, int expected_code = 0) {
    Process process(command);
    return finish(process, expected_code);
  }
  static bool works(const std::vector<std::string>& command) {
    Process process(command);
    return process.wait(kPatience) && process.exit_code() == 0;
  }

  std::string in_run(const std::string& name, const std::string& folder = "run") const {
    return temp_.file(folder + "/" + name);
  }
  base::Document result(const std::string& folder = "run") const {
    const auto document = base::load_document(in_run("result.json", folder));
    EXPECT_TRUE(document.ok()) << document.error().to_string();
    return document.ok() ? *document : base::Document{};
  }
  std::int64_t number(const std::string& key, const std::string& folder = "run") const {
    const base::Document document = result(folder);
    base::Reader reader(document);
    return reader.root().field(key).integer();
  }
  std::string weights(const std::string& folder = "run") const {
    const base::Document document = result(folder);
    base::Reader reader(document);
    return reader.root().field("weights_sha256").text();
  }

  const TempFolder temp_;
  const std::string job_ = temp_.write("job.yaml", kSmallJob);
};

}  // namespace yoke::testing
