#include <gmock/gmock.h>

#include "tests/cli/run_yoke.h"
#include "tests/support/files.h"
#include "yoke/plan/plan.h"

namespace yoke::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using yoke::testing::TempFolder;

/// Two unlike kinds of machines with a slow link between them.
constexpr const char* kCluster =
    "nodes:\n"
    "  - {name: a, devices: 2, type: quick, memory: 1TB, tflops: 10, intra_bandwidth: 10GB/s, inter_bandwidth: 1GB/s}\n"
    "  - {name: b, devices: 1, type: slow, memory: 1TB, tflops: 5, intra_bandwidth: 10GB/s, inter_bandwidth: 1GB/s}\n";

struct Files {
  TempFolder folder;
  std::string graph = folder.write("graph.txt", kChain);  // much to reduce in its second layer
  std::string cluster = folder.write("cluster.yaml", kCluster);

  std::vector<std::string> command(std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"plan", "auto", "--profile", graph, "--cluster", cluster, "--gbs", "16", "--lbs", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST(PlanAuto, WritesTheBestPlan) {
  const Files files;
  const std::string out = files.folder.file("plan.json");
  const base::Document json = yoke_json(files.command({"--out", out}));
  base::Reader reader(json);
  auto root = reader.root();
  const auto plan = plan::load_plan(out);
  ASSERT_TRUE(plan.ok()) << plan.error().to_string();
  EXPECT_EQ(plan->workers(), 8);
  EXPECT_FALSE(plan->pipeline_lanes.empty());  // 9 GB of gradients over 1 GB/s
  EXPECT_NEAR(plan->step_seconds, root.field("step_seconds").number(), 1e-9);
  double last = 0;
  std::vector<std::string> names;
  for (auto& each : root.field("candidates").items()) {
    EXPECT_GE(each.field("step_seconds").number(), last);
    last = each.field("step_seconds").number();
    names.push_back(each.field("name").text());
  }
  EXPECT_EQ(names.front(), root.field("winner").text());
  EXPECT_THAT(names, Contains("data lanes"));
  EXPECT_THAT(root.field("why").text(), HasSubstr("as long"));
  EXPECT_EQ(yoke({"simulate", out, "--profile", files.graph, "--cluster", files.cluster}).code, 0);
}

TEST(PlanAuto, PrintsTheWinnersSideBySide) {
  const Files files;
  const Outcome outcome = yoke(files.command());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("data lanes"), HasSubstr("1f1b-flush pipeline"), HasSubstr("wins:"),
                                 HasSubstr("plans judged by the simulator")));
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("1f1b-stash")));
  EXPECT_THAT(yoke(files.command({"--allow-stale"})).out, HasSubstr("1f1b-stash"));
}

TEST(PlanAuto, UsesOnlyTheSchedulesThatWereNamed) {
  const Files files;
  const base::Document json = yoke_json(files.command({"--schedule", "1f1b-stash"}));
  base::Reader reader(json);
  for (auto& each : reader.root().field("candidates").items()) {
    EXPECT_THAT(each.field("name").text(), HasSubstr("1f1b-stash"));
  }
}

TEST(PlanAuto, PlansDataLanesFromMeasuredProfilesAlone) {
  const base::Document json = yoke_json(
      {"plan", "auto", "--cluster", kExample + "/cluster.yaml", "--profiles", kExample + "/profiles", "--gbs", "1024"});
  base::Reader reader(json);
  EXPECT_THAT(reader.root().field("winner").text(), HasSubstr("data lanes"));
}

TEST(PlanAuto, TakesTheJobsBatchesAndSchedule) {
  const Files files;
  const std::string job = files.folder.write("job.yaml",
                                             "model: {name: chain}\ndata: {name: fashion-mnist}\n"
                                             "batch: {global: 16, local: 2}\nparallel: {schedule: gpipe}\n");
  const std::string out = files.folder.file("plan.json");
  const Outcome outcome =
      yoke({"plan", "auto", "--job", job, "--profile", files.graph, "--cluster", files.cluster, "--out", out});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto plan = plan::load_plan(out);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->model, "chain");
  ASSERT_FALSE(plan->pipeline_lanes.empty());
  EXPECT_EQ(plan->pipeline_lanes[0].schedule, "gpipe");
}

TEST(PlanAuto, NothingThatFitsIsInfeasible) {
  const Files files;
  const std::string tight = files.folder.write(
      "tight.yaml",
      "nodes:\n  - {name: a, devices: 2, memory: 1GB, intra_bandwidth: 10GB/s, inter_bandwidth: 1GB/s}\n");
  const Outcome outcome =
      yoke({"plan", "auto", "--profile", files.graph, "--cluster", tight, "--gbs", "16", "--lbs", "2"});
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("memory"));
}

TEST(PlanAuto, RefusesBadInput) {
  const Files files;
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& part) {
    const Outcome outcome = yoke(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(part));
  };
  refused({"plan", "auto", "--profile", files.graph, "--gbs", "16"}, "--cluster: found none");
  refused({"plan", "auto", "--cluster", files.cluster, "--gbs", "16"}, "--profile: found none");
  refused({"plan", "auto", "--cluster", files.cluster, "--profile", files.graph}, "--gbs: found none");
  refused({"plan", "auto", "--cluster", files.cluster, "--profile", files.graph, "--gbs", "16"}, "--lbs: found none");
  refused({"plan", "auto", "--cluster", files.cluster, "--profile", files.graph, "--gbs", "15", "--lbs", "2"},
          "--gbs: found 15, expected a multiple");
  refused(files.command({"--schedule", "1f1b"}), "--schedule: found `1f1b`");
  refused(files.command({"--profiled-on", "other"}), "--profiled-on: found `other`");
  refused(files.command({"--optimizer-copies", "99"}), "--optimizer-copies");
}

}  // namespace
}  // namespace yoke::cli
