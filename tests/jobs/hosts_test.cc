// `yoke train` on several hosts: network namespaces with names of their own, joined by a virtual cable.
#include <array>
#include <filesystem>

#include "tests/jobs/whole_job.h"
#include "tests/support/paths.h"
#include "tests/support/two_hosts.h"
#include "yoke/comm/join.h"
#include "yoke/plan/plan.h"

namespace yoke::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OnTwoHosts : public WholeJob {
 protected:
  void SetUp() override {
    for (const auto& backend : comm::list_backends()) {
      if (backend.name == "gloo" && !backend.available) GTEST_SKIP() << "gloo is not in this build";
    }
    if (!hosts_.works() || !works({"unshare", "--uts", "true"})) {
      GTEST_SKIP() << "needs iproute2 and the right to make network namespaces";
    }
    run({yoke::testing::program("yoke"), "run", job_, "--run-dir", temp_.file("alone")});
  }

  /// One rank on each host, started by hand; returns what rank 0 printed. The job and what is added to the command may
  /// be others on the second host.
  std::string train(const std::vector<std::string>& more = {}) { return train({job_, job_}, {more, more}, 0); }
  std::string train(const std::array<std::string, 2>& jobs, const std::array<std::vector<std::string>, 2>& more,
                    int code) {
    std::vector<Process> ranks;
    for (const int rank : {0, 1}) {
      const auto at = static_cast<std::size_t>(rank);
      std::vector<std::string> command{
          yoke::testing::program("yoke"), "train", jobs.at(at), "--run-dir", temp_.file("run"), "--cluster", cluster_};
      command.insert(command.end(), more.at(at).begin(), more.at(at).end());
      const char host = rank == 0 ? 'a' : 'b';
      const std::string variables = fmt::format("MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 RANK={} WORLD_SIZE=2", rank);
      ranks.push_back(
          hosts_.start(host, {"unshare", "--uts", "sh", "-c",
                              fmt::format("hostname host-{}; exec env {} {}", host, variables, line(command))}));
    }
    const std::string told = finish(ranks[0], code);
    told_by_second_ = finish(ranks[1], code);
    return told;
  }

  TwoHosts hosts_;
  std::string told_by_second_;
  const std::string cluster_ =
      temp_.write("cluster.yaml", "nodes:\n- {name: a, address: 10.77.0.1}\n- {name: b, address: 10.77.0.2}\n");
};

TEST_F(OnTwoHosts, LanesOfData) {
  EXPECT_THAT(train(), HasSubstr("8 steps, 128 samples, 2 epochs"));
  EXPECT_EQ(number("steps"), kSmallJobSteps);
  EXPECT_THAT(read_text(in_run("plan.json")), AllOf(HasSubstr("\"a:0\""), HasSubstr("\"b:0\"")));
  EXPECT_EQ(weights(), weights("alone"));
}

TEST_F(OnTwoHosts, APipeline) {
  plan::Plan plan{.model = "mlp", .gbs = 16, .lbs = 4};
  plan.pipeline_lanes = {
      {.schedule = "1f1b-flush",
       .workers = 4,
       .stages = {{.layers = {"fc1"}, .devices = {{"a", 0}}}, {.layers = {"fc2", "fc3"}, .devices = {{"b", 0}}}}}};
  const std::string file = temp_.write("pipeline.json", plan::to_json(plan));
  EXPECT_THAT(train({"--set", "parallel.plan=" + file}), HasSubstr("8 steps, 128 samples, 2 epochs"));
  EXPECT_THAT(read_text(in_run("plan.json")), HasSubstr("1f1b-flush"));
  EXPECT_EQ(weights(), weights("alone"));
}

TEST_F(OnTwoHosts, OtherFilesOnTheSecondHostAreRefused) {
  const std::string other = temp_.write("other.yaml", std::string(kSmallJob) + "seed: 9\n");
  const auto expect = [&](const std::string& told, const std::string& what) {
    for (const auto& report : {told, told_by_second_}) {
      EXPECT_THAT(report, AllOf(HasSubstr("rank 1 (on host-b) is not that of rank 0"), HasSubstr(what)));
    }
    EXPECT_FALSE(std::filesystem::exists(temp_.file("run"))) << "nothing was begun";
  };
  expect(train({job_, other}, {}, 2), "job file of rank 1");
  EXPECT_THAT(told_by_second_, HasSubstr("line 7, `` and `seed: 9`"));
  expect(train({job_, job_}, {{{"--set", "seed=3"}, {"--set", "seed=4"}}}, 2), "line 1, `seed=3` and `seed=4`");

  plan::Plan plan{.model = "mlp", .gbs = 16, .lbs = 4};
  plan.data_lanes = {{.device = {"a", 0}, .vsw = 2}, {.device = {"b", 0}, .vsw = 2}};
  const std::filesystem::path folder = temp_.file("elsewhere");
  std::filesystem::create_directory(folder);
  const std::string with_plan = std::string(kSmallJob) + "parallel: {plan: plan.json}\n";
  const std::string job = temp_.write("planned.yaml", with_plan);
  const std::string job_elsewhere = temp_.write("elsewhere/planned.yaml", with_plan);
  temp_.write("plan.json", plan::to_json(plan));
  plan.lbs = 2;
  plan.data_lanes[1].ga = 3;
  temp_.write("elsewhere/plan.json", plan::to_json(plan));
  expect(train({job, job_elsewhere}, {}, 2), "plan file of rank 1");
  EXPECT_THAT(told_by_second_, HasSubstr("lbs"));
}

TEST_F(OnTwoHosts, TheSecondHostNeedsNoJobFile) {
  EXPECT_THAT(train({job_, temp_.file("absent.yaml")}, {}, 0), HasSubstr("8 steps, 128 samples, 2 epochs"));
  EXPECT_EQ(weights(), weights("alone"));
}

}  // namespace
}  // namespace yoke::testing
