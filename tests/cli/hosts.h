// What tests of commands that run on several hosts share: the program as processes, and a free port to meet at.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "yoke/base/document.h"
#include "yoke/comm/store/tcp_store.h"

namespace yoke::cli {

/// One that nobody listens on at the moment.
inline std::string free_port() {
  const auto server = comm::TcpStoreServer::start("127.0.0.1");
  return std::to_string((*server)->port());
}

/// `yoke` without libtorch, which starts at once.
inline std::vector<std::string> program(std::vector<std::string> words) {
  words.insert(words.begin(), yoke::testing::program("yoke_fake"));
  return words;
}

/// Waits, expects the exit code and returns all that was printed.
inline std::string finish(yoke::testing::Process& process, int expected_code = 0) {
  EXPECT_TRUE(process.wait(std::chrono::seconds(60))) << process.output();
  EXPECT_EQ(process.exit_code(), expected_code) << process.output();
  return process.output();
}

/// The object on the last line of what was printed.
inline base::Document last_json(const std::string& output) {
  const auto end = output.find_last_not_of('\n');
  const auto begin = end == std::string::npos ? end : output.rfind('\n', end);
  const auto document = base::parse_json(output.substr(begin == std::string::npos ? 0 : begin + 1), "output");
  EXPECT_TRUE(document.ok()) << output;
  return document.ok() ? *document : base::Document{};
}

}  // namespace yoke::cli
