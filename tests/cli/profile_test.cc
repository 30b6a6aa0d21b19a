// `yoke profile` as scripts run it: real processes, so that memory limits and interruptions are real too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tests/cli/run_yoke.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include "yoke/base/files.h"

namespace yoke::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using yoke::testing::Process;
using yoke::testing::TempFolder;

constexpr auto kLong = std::chrono::minutes(2);

struct Ended {
  int code = 0;
  std::string output;
  Json json() const {
    const auto begin = output.find("{\"");
    return begin == std::string::npos ? Json() : Json::parse(output.substr(begin), nullptr, false);
  }
};

Ended run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {YOKE_PROGRAM, "--log-level", "error", "profile"});
  Process process(arguments);
  EXPECT_TRUE(process.wait(kLong)) << process.output();
  return {process.exit_code(), process.output()};
}

class ProfileCommand : public ::testing::Test {
 protected:
  void SetUp() override {
#if !YOKE_HAS_PROFILER
    GTEST_SKIP() << "this build has no libtorch to measure with";
#endif
  }
  TempFolder folder_;
};

TEST_F(ProfileCommand, MemoryIsTriedInAProcessWithThatLimit) {
  const std::string out = folder_.file("out");
  const Ended ended =
      run({"memory", "--model", "small_cnn", "--lbs", "64", "--memory", "60MB", "--out", out, "--json"});
  ASSERT_EQ(ended.code, 0) << ended.output;
  const Json size = ended.json()["nodes"][0]["profile"]["nodes"][0]["local_batch_sizes"][0];
  const int most = size["max_vsw"];
  EXPECT_GE(most, 1);
  EXPECT_LT(most, 32);
  EXPECT_TRUE(size["memory"]["verified"]);
  EXPECT_FALSE(size["memory"]["capped"]) << "memory binds, not the number of tries";
  const double worker = size["memory"]["worker"];
  const double once = size["memory"]["weights"].get<double>() + size["memory"]["gradients"].get<double>() +
                      size["memory"]["optimizer"].get<double>() + size["memory"]["passes"].get<double>();
  // What was tried counts; the forecast is near it, since the workers' peaks need not coincide.
  EXPECT_LE(once + worker * most, 60e6 * 1.2);
  EXPECT_GT(once + worker * (most + 1), 60e6 * 0.85);
  EXPECT_TRUE(base::exists(out + "/memory_profile_data/64/localhost/max_memory_profile_info.json"));
}

TEST_F(ProfileCommand, ALocalBatchThatFitsNoWorkerIsInfeasible) {
  const Ended ended = run(
      {"memory", "--model", "small_cnn", "--lbs", "512", "--memory", "9MB", "--out", folder_.file("out"), "--json"});
  EXPECT_EQ(ended.code, 3) << ended.output;
  EXPECT_EQ(ended.json()["error"]["kind"], "infeasible");
  EXPECT_THAT(ended.output, HasSubstr("not one worker of 512 samples fits 9.0 MB"));
}

TEST_F(ProfileCommand, AFolderOfAnotherModelIsRefusedByName) {
  const std::string out = folder_.file("out");
  ASSERT_EQ(run({"bucket", "--model", "mlp", "--out", out}).code, 0);
  const Ended ended = run({"bucket", "--model", "small_cnn", "--out", out});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output, HasSubstr("found a profile of the model `mlp`, expected `small_cnn`"));
}

TEST_F(ProfileCommand, InterruptedItSaysSoAndGoesOn) {
  const std::vector<std::string> command{"compute", "--model",  "mlp", "--lbs", "1,2,4,8",           "--most-vsw",
                                         "2",       "--budget", "60s", "--out", folder_.file("out"), "--json"};
  std::vector<std::string> argv{YOKE_PROGRAM, "--log-level", "error", "profile"};
  argv.insert(argv.end(), command.begin(), command.end());
  Process process(argv);
  const std::string file = folder_.file("out/comp_profile_data/1/localhost");
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (!base::exists(file) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ::kill(process.pid(), SIGINT);
  ASSERT_TRUE(process.wait(kLong));
  const Ended first{process.exit_code(), process.output()};
  EXPECT_EQ(first.code, 130) << first.output;
  EXPECT_TRUE(first.json()["interrupted"]);
  const int measured = first.json()["nodes"][0]["measured"];
  EXPECT_GE(measured, 1);
  EXPECT_LT(measured, 8);
  const Ended second = run(command);
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_EQ(second.json()["nodes"][0]["kept"], measured);
  EXPECT_EQ(second.json()["nodes"][0]["measured"], 8 - measured);
}

TEST_F(ProfileCommand, EveryNodeOfThisMachineIsMeasured) {
  const std::string cluster = folder_.write("cluster.yaml", "nodes:\n  - {name: fast}\n  - {name: slow, speed: 0.5}\n");
  const Ended ended = run({"compute", "--model", "mlp", "--lbs", "64", "--most-vsw", "1", "--budget", "2s", "--cluster",
                           cluster, "--out", folder_.file("out"), "--json"});
  ASSERT_EQ(ended.code, 0) << ended.output;
  const Json nodes = ended.json()["nodes"];
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[1]["node"], "slow");
  EXPECT_TRUE(base::exists(folder_.file("out/nodes/fast.json")));
  EXPECT_TRUE(base::exists(folder_.file("out/nodes/slow.json")));
}

TEST(ProfileOptions, AreCheckedBeforeAnythingIsMeasured) {
  const auto expect = [](const std::vector<std::string>& arguments, const std::string& part) {
    const Outcome outcome = yoke(arguments);
    EXPECT_EQ(outcome.code, 2) << part;
    EXPECT_THAT(outcome.err, HasSubstr(part));
  };
  expect({"profile", "memory", "--lbs", "4"}, "--model: expected either --model NAME or --job FILE");
  expect({"profile", "memory", "--model", "mlp"}, "--lbs: found none");
  for (const std::string lbs : {"8..4", "0", "x", "4,", "4..", "1e9"}) {
    expect({"profile", "memory", "--model", "mlp", "--lbs", lbs}, "--lbs: found `" + lbs + "`");
  }
  expect({"profile", "memory", "--model", "mlp", "--lbs", "4", "--mode", "dinamic"}, "did you mean `dynamic`?");
  expect({"profile", "memory", "--model", "mlp", "--lbs", "4", "--memory", "much"}, "--memory: found `much`");
  expect({"profile", "compute", "--model", "mlp", "--lbs", "4", "--budget", "x"}, "--budget");
  expect({"profile", "compute", "--model", "mlp", "--lbs", "4", "--pause", "-1s"}, "--pause");
  expect({"profile", "layers", "--model", "mlp", "--lbs", "4", "--most-vsw", "0"}, "--most-vsw: found 0");
  expect({"profile", "bucket", "--model", "mlp", "--set", "optimiser.lr=1"}, "did you mean `optimizer`?");
  expect({"profile", "bucket", "--model", "mlp", "--node", "a b"}, "--node");
}

}  // namespace
}  // namespace yoke::cli
