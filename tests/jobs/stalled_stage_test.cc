// A stage of a pipeline that dies or stands still in the middle of a step: all say which, and nothing is left behind.
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/jobs/whole_job.h"
#include "tests/support/paths.h"
#include "yoke/base/files.h"
#include "yoke/plan/plan.h"

namespace yoke::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSilent = "does not answer: stopped, swapped out or cut off";

/// Files of /proc have no size.
std::string read_proc(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The process of a rank that `launcher` has started, or -1.
pid_t pid_of(int rank, pid_t launcher) {
  const std::string wanted = fmt::format("YOKE_RANK={}", rank);
  const std::string tasks = fmt::format("/proc/{}/task", launcher);
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    const std::string children = read_proc(task.path().string() + "/children");
    for (const auto child : base::split(children, " ")) {
      if (child.empty()) continue;
      const std::string environment = read_proc(fmt::format("/proc/{}/environ", child));
      for (const auto variable : base::split(environment, std::string_view("\0", 1))) {
        if (variable == wanted) return std::stoi(std::string(child));
      }
    }
  }
  return -1;
}

class AStage : public WholeJob {
 protected:
  /// Three stages of one device each; the signal hits the middle one. Returns what the job has printed.
  std::string hit(int signal, const std::string& schedule) {
    plan::Plan plan{.model = "mlp", .gbs = 16, .lbs = 4};
    plan::PipelineLane lane{.schedule = schedule, .workers = 4};
    for (const int stage : {0, 1, 2}) {
      lane.stages.push_back({.layers = {fmt::format("fc{}", stage + 1)}, .devices = {{"node0", stage}}});
    }
    plan.pipeline_lanes = {lane};
    // The device takes a hundred times as long as this machine: nearly all the time is inside of steps.
    const std::string cluster = temp_.write("cluster.yaml", "nodes:\n- {name: node0, devices: 3, speed: 0.01}\n");
    Process job({yoke::testing::program("yoke"), "run", job_, "--cluster", cluster, "--run-dir", temp_.file("run"),
                 "--patience", "4s", "--set", "parallel.plan=" + temp_.write("plan.json", plan::to_json(plan)), "--set",
                 "data.limit=1000000", "--set", "checkpoint.every_steps=1000000"});
    const auto end = std::chrono::steady_clock::now() + kPatience;
    const auto steps = [&] { return base::split(read_text(in_run("metrics.jsonl")), "\n").size(); };
    while ((!base::exists(in_run("metrics.jsonl")) || steps() < 4) && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    for (const int rank : {0, 1, 2}) ranks_.push_back(pid_of(rank, job.pid()));
    EXPECT_GT(ranks_[1], 0);
    if (ranks_[1] > 0) ::kill(ranks_[1], signal);
    return finish(job, 4);
  }

  /// By the job, and by every survivor.
  void expect_named(const std::string& output, const std::string& by_job, const std::string& why) const {
    EXPECT_THAT(output, AllOf(HasSubstr("rank 1 ("), HasSubstr(by_job), Not(HasSubstr("aborted"))));
    for (const int survivor : {0, 2}) {
      EXPECT_THAT(read_text(in_run(fmt::format("logs/rank-{}.log", survivor))),
                  AllOf(HasSubstr("rank 1 ("), HasSubstr(why), Not(HasSubstr("aborted"))));
    }
    for (const pid_t rank : ranks_) EXPECT_NE(::kill(rank, 0), 0) << rank << " is still there";
  }

  std::vector<pid_t> ranks_;
};

TEST_F(AStage, ThatStandsStillIsNamed) {
  expect_named(hit(SIGSTOP, "1f1b-flush"), kSilent, kSilent);
}

TEST_F(AStage, ThatStandsStillInASpanIsNamed) {
  expect_named(hit(SIGSTOP, "1f1b-stash"), kSilent, kSilent);
}

TEST_F(AStage, ThatDiesIsNamed) {
  expect_named(hit(SIGKILL, "1f1b-flush"), "was ended by SIGKILL", "was lost: the process ended");
}

TEST_F(AStage, PatienceIsATime) {
  EXPECT_THAT(run({yoke::testing::program("yoke"), "run", job_, "--patience", "soon"}, 2), HasSubstr("--patience"));
  EXPECT_THAT(run({yoke::testing::program("yoke"), "run", job_, "--patience", "0s"}, 2),
              HasSubstr("expected 1s to 1d"));
}

}  // namespace
}  // namespace yoke::testing
