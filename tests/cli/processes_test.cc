// The process starter with plain shell commands: what it catches, whom it blames, whom it ends.
#include "yoke/cli/launch/processes.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace yoke::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using yoke::testing::read_text;
using namespace std::chrono_literals;

class Processes : public ::testing::Test {
 protected:
  LaunchOutcome run(const std::vector<std::string>& scripts, const LaunchTimes& times = {500ms, 500ms, 3s},
                    const LaunchHooks& hooks = {}) {
    std::vector<RankCommand> commands;
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      commands.push_back({.argv = {"/bin/sh", "-c", scripts[i]},
                          .environment = {"YOKE_RANK=" + std::to_string(i)},
                          .log = folder_.file("rank-" + std::to_string(i) + ".log")});
    }
    auto outcome = run_ranks(commands, times, hooks, clock_);
    EXPECT_TRUE(outcome.ok()) << outcome.error().to_string();
    return *std::move(outcome);
  }
  static bool alive(int pid) { return ::kill(pid, 0) == 0; }

  const yoke::testing::TempFolder folder_;
  const base::SystemClock clock_{};
};

TEST_F(Processes, CatchesOutputReportsAndEnds) {
  std::vector<std::string> reports;
  LaunchHooks hooks;
  hooks.report = [&](int rank, std::string_view line) { reports.push_back(std::to_string(rank) + std::string(line)); };
  const auto outcome =
      run({"echo out; echo err >&2; printf 'half' >&3; echo ' line' >&3", "printf '%s' \"$YOKE_RANK\""}, {}, hooks);
  EXPECT_EQ(outcome.cause(), nullptr);
  ASSERT_EQ(outcome.ends.size(), 2U);
  for (const auto& end : outcome.ends) {
    EXPECT_TRUE(end.ok());
    EXPECT_FALSE(alive(end.pid));
    EXPECT_EQ(end.last_lines, (end.rank == 0 ? std::vector<std::string>{"out", "err"} : std::vector<std::string>{"1"}));
  }
  EXPECT_THAT(reports, ElementsAre("0half line"));
  EXPECT_EQ(read_text(folder_.file("rank-0.log")), "out\nerr\n");
  EXPECT_EQ(read_text(folder_.file("rank-1.log")), "1");
}

TEST_F(Processes, LinesWithoutAnEndAreCut) {
  std::vector<std::size_t> reports;
  LaunchHooks hooks;
  hooks.report = [&](int, std::string_view line) { reports.push_back(line.size()); };
  const auto outcome = run({"head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&3; echo >&3; echo next >&3"},
                           {500ms, 500ms, 30s}, hooks);
  ASSERT_EQ(outcome.ends.size(), 1U);
  ASSERT_EQ(outcome.ends.front().last_lines.size(), 1U);
  EXPECT_EQ(outcome.ends.front().last_lines.front().size(), 4096U);
  EXPECT_THAT(reports, ElementsAre(1U << 20U, 4U));
  EXPECT_EQ(read_text(folder_.file("rank-0.log")).size(), 3000000U) << "the log has all of it";
}

TEST_F(Processes, KeepsOnlyTheLastLines) {
  const auto outcome = run({"for i in $(seq 1 50); do echo line $i; done; exit 3"});
  ASSERT_NE(outcome.cause(), nullptr);
  EXPECT_EQ(outcome.cause()->last_lines.size(), kLastLines);
  EXPECT_EQ(outcome.cause()->last_lines.back(), "line 50");
  EXPECT_EQ(name_end(*outcome.cause()), "ended with exit code 3");
}

TEST_F(Processes, TheKilledRankIsTheCauseNotThoseThatLostIt) {
  // Rank 0 complains (exit code 4) about the same moment as rank 1 dies, whoever is seen first.
  const auto outcome = run({"sleep 0.3; exit 4", "sleep 0.35; kill -KILL $$", "sleep 0.5; exit 4"});
  ASSERT_NE(outcome.cause(), nullptr);
  EXPECT_EQ(outcome.cause()->rank, 1);
  EXPECT_EQ(outcome.cause()->signal, SIGKILL);
  EXPECT_EQ(name_end(*outcome.cause()), "was ended by SIGKILL");
  EXPECT_THAT(std::string(signal_meaning(SIGKILL)), HasSubstr("dmesg"));
}

TEST_F(Processes, AmongThoseThatLostAPeerTheFirstIsTheCause) {
  const auto outcome = run({"sleep 0.5; exit 4", "exit 4"});
  ASSERT_NE(outcome.cause(), nullptr);
  EXPECT_EQ(outcome.cause()->rank, 1);
}

TEST_F(Processes, ThoseThatDoNotLeaveAreEndedAndNotBlamed) {
  const auto began = clock_.now();
  const auto outcome = run({"trap '' TERM; while :; do sleep 0.05; done", "exit 1", "sleep 60"});
  EXPECT_LT(clock_.now() - began, 10s);
  ASSERT_NE(outcome.cause(), nullptr);
  EXPECT_EQ(outcome.cause()->rank, 1);
  ASSERT_EQ(outcome.ends.size(), 3U);
  EXPECT_EQ(outcome.ends[1].rank, 2);
  EXPECT_EQ(outcome.ends[1].signal, SIGTERM);
  EXPECT_EQ(outcome.ends[2].rank, 0);
  EXPECT_EQ(outcome.ends[2].signal, SIGKILL);
  EXPECT_TRUE(outcome.ends[2].by_us);
}

TEST_F(Processes, WhatARankHasStartedGoesWithIt) {
  const auto outcome = run({"sleep 600 & echo $!; exit 0"});
  ASSERT_EQ(outcome.ends.size(), 1U);
  ASSERT_EQ(outcome.ends[0].last_lines.size(), 1U);
  const int grandchild = std::stoi(outcome.ends[0].last_lines[0]);
  // Killed for sure; but the kernel and whoever inherits it (init) may take a moment to be done with it.
  const auto gone = [&] {
    std::ifstream file("/proc/" + std::to_string(grandchild) + "/stat");
    std::string line;
    std::getline(file, line);
    return !alive(grandchild) || line.find(") Z ") != std::string::npos;
  };
  for (int i = 0; i < 500 && !gone(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(gone());
}

TEST_F(Processes, ARequestIsPassedOnAndASecondKills) {
  int asked = 0;
  bool ready = false;  // its trap is set
  LaunchHooks hooks;
  hooks.report = [&](int, std::string_view) { ready = true; };
  hooks.stop_requests = [&] { return ready ? asked : 0; };
  const auto run_script = [&](const std::string& trap, const LaunchTimes& times = {500ms, 500ms, 3s}) {
    ready = false;
    return run({"trap " + trap + " TERM; echo ready >&3; while :; do sleep 0.02; done"}, times, hooks);
  };
  asked = 1;
  const auto saved = run_script("'exit 130'");
  EXPECT_TRUE(saved.stop_requested);
  EXPECT_FALSE(saved.killed_on_request);
  EXPECT_EQ(saved.ends[0].exit_code, 130);
  EXPECT_EQ(saved.cause(), nullptr);

  asked = 2;
  const auto killed = run_script("''");
  EXPECT_TRUE(killed.killed_on_request);
  EXPECT_EQ(killed.ends[0].signal, SIGKILL);
  EXPECT_EQ(killed.cause(), nullptr);

  asked = 1;
  const auto late = run_script("''", {500ms, 500ms, 300ms});
  EXPECT_TRUE(late.killed_on_request);

  const auto failed = run_script("'exit 4'");
  ASSERT_NE(failed.cause(), nullptr) << "it could not save";
  EXPECT_EQ(failed.cause()->exit_code, 4);
}

TEST_F(Processes, AProgramThatIsNotThereIsSaid) {
  const auto outcome =
      run_ranks({{.argv = {"/nowhere/yoke"}, .environment = {}, .log = folder_.file("log")}}, {}, {}, clock_);
  ASSERT_TRUE(outcome.ok());
  ASSERT_NE(outcome->cause(), nullptr);
  EXPECT_EQ(name_end(*outcome->cause()), "could not be started");
  EXPECT_THAT(outcome->cause()->last_lines, ElementsAre(HasSubstr("No such file")));
}

TEST_F(Processes, SignalsHaveNamesAndMeanings) {
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) {
    EXPECT_THAT(name_end({.exit_code = std::nullopt, .signal = number}), HasSubstr("was ended by SIG"));
    EXPECT_FALSE(signal_meaning(number).empty());
  }
  EXPECT_EQ(name_end({.exit_code = std::nullopt, .signal = SIGRTMIN}),
            "was ended by signal " + std::to_string(SIGRTMIN));
  EXPECT_EQ(signal_meaning(SIGRTMIN), "");
}

}  // namespace
}  // namespace yoke::cli
