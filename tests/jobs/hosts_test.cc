// `yoke train` on several hosts: network namespaces with names of their own, joined by a virtual cable.
#include "tests/jobs/whole_job.h"
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
    run({YOKE_PROGRAM, "run", job_, "--run-dir", temp_.file("alone")});
  }

  /// One rank on each host, started by hand; returns what rank 0 printed.
  std::string train(const std::vector<std::string>& more = {}) {
    std::vector<std::string> command{YOKE_PROGRAM,      "train",     job_,    "--run-dir",
                                     temp_.file("run"), "--cluster", cluster_};
    command.insert(command.end(), more.begin(), more.end());
    std::vector<Process> ranks;
    for (const int rank : {0, 1}) {
      const char host = rank == 0 ? 'a' : 'b';
      const std::string variables = fmt::format("MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 RANK={} WORLD_SIZE=2", rank);
      ranks.push_back(
          hosts_.start(host, {"unshare", "--uts", "sh", "-c",
                              fmt::format("hostname host-{}; exec env {} {}", host, variables, line(command))}));
    }
    const std::string told = finish(ranks[0]);
    finish(ranks[1]);
    return told;
  }

  TwoHosts hosts_;
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

}  // namespace
}  // namespace yoke::testing
