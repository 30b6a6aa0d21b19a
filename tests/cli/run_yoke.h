// Runs `yoke` in process, as scripts and people do.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "yoke/base/document.h"
#include "yoke/cli/command.h"

namespace yoke::cli {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

inline Outcome yoke(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"yoke", "--log-level", "error"});
  std::vector<const char*> pointers;
  for (const auto& argument : arguments) pointers.push_back(argument.c_str());
  std::ostringstream out, err;
  const int code = run_yoke(static_cast<int>(pointers.size()), pointers.data(), out, err);
  return {code, out.str(), err.str()};
}

/// Runs with --json and expects one object on one line.
inline base::Document yoke_json(std::vector<std::string> arguments, int expected_code = 0) {
  arguments.emplace_back("--json");
  const Outcome outcome = yoke(std::move(arguments));
  EXPECT_EQ(outcome.code, expected_code) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out.find('\n'), outcome.out.size() - 1) << "one object on one line";
  auto document = base::parse_json(outcome.out, "output");
  EXPECT_TRUE(document.ok()) << outcome.out;
  return document.ok() ? *document : base::Document{};
}

inline const std::string kExample = std::string(yoke::testing::kSourceDir) + "/examples/unlike-gpus";

inline std::vector<std::string> example_batch(const std::string& gbs) {
  return {"plan", "batch", "--cluster", kExample + "/cluster.yaml", "--profiles", kExample + "/profiles", "--gbs", gbs};
}

inline constexpr const char* kChain =
    "a -- Conv -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=100.0, parameter_size=1000.0\n"
    "b -- Linear -- forward_compute_time=2.0, backward_compute_time=4.0, activation_size=10.0, parameter_size=9e9\n"
    "\ta -- b\n";

}  // namespace yoke::cli
