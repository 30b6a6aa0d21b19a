#include <gmock/gmock.h>

#include "tests/cli/run_yoke.h"
#include "tests/support/files.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using yoke::testing::read_text;
using yoke::testing::TempFolder;

constexpr const char* kCluster =
    "nodes:\n"
    "  - {name: node0, devices: 2, memory: 1TB, intra_bandwidth: 10GB/s, inter_bandwidth: 1GB/s}\n";

struct Files {
  TempFolder folder;
  std::string graph = folder.write("graph.txt", kChain);
  std::string cluster = folder.write("cluster.yaml", kCluster);
  std::string plan = folder.file("plan.json");

  explicit Files(const std::string& schedule = "1f1b-flush") {
    const Outcome made = yoke({"plan", "pipeline", "--profile", graph, "--cluster", cluster, "--micro-batches", "4",
                               "--schedule", schedule, "--lbs", "2", "--out", plan});
    EXPECT_EQ(made.code, 0) << made.err;
  }
};

TEST(Simulate, ExecutesAPipelineWithItsProfile) {
  const Files files;
  const base::Document json =
      yoke_json({"simulate", files.plan, "--profile", files.graph, "--cluster", files.cluster, "--steps", "2"});
  base::Reader reader(json);
  auto root = reader.root();
  EXPECT_EQ(root.field("steps").integer(), 2);
  EXPECT_EQ(root.field("devices").items().size(), 2U);
  EXPECT_TRUE(root.field("fits_memory").boolean());
  const double shares = root.field("computing_share").number() + root.field("exposed_communication_share").number() +
                        root.field("bubble_share").number();
  EXPECT_NEAR(shares, 1, 1e-6);
  // Stage b takes 6 ms a worker, stage a 3 ms: 4 x 6 ms, and a's passes before and after.
  EXPECT_NEAR(root.field("steady_step_seconds").number(), 0.027, 0.0005);
}

TEST(Simulate, PrintsATableAndDraws) {
  const Files files;
  const std::string trace = files.folder.file("trace.json");
  const std::string svg = files.folder.file("time.svg");
  const Outcome outcome = yoke({"simulate", files.plan, "--trace", trace, "--svg", svg});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("stage 0 replica 0"), HasSubstr("bubble"), HasSubstr("samples/s"),
                                 HasSubstr("the plan predicts a step of")));
  EXPECT_THAT(read_text(trace), HasSubstr("traceEvents"));
  EXPECT_THAT(read_text(svg), AllOf(StartsWith("<svg"), HasSubstr("backward of worker 3")));
}

TEST(Simulate, ADataPlanTakesWhatThePlannerPredicted) {
  const TempFolder folder;
  auto arguments = example_batch("1024");
  arguments.insert(arguments.end(), {"--out", folder.file("plan.json")});
  ASSERT_EQ(yoke(arguments).code, 0);
  const base::Document planned = yoke_json({"explain", folder.file("plan.json")});
  base::Reader planned_reader(planned);
  const double predicted = planned_reader.root().field("step_seconds").number();
  for (const auto& more : std::vector<std::vector<std::string>>{
           {}, {"--cluster", kExample + "/cluster.yaml", "--profiles", kExample + "/profiles"}}) {
    std::vector<std::string> command{"simulate", folder.file("plan.json")};
    command.insert(command.end(), more.begin(), more.end());
    const base::Document json = yoke_json(command);
    base::Reader reader(json);
    // All lanes wait for the slowest of each bucket, which the planner's formula sees lane by lane.
    EXPECT_NEAR(reader.root().field("step_seconds").number(), predicted, 0.1 * predicted);
  }
}

TEST(Simulate, DataLanesArePricedAsPlanned) {
  const TempFolder folder;
  profile::NodeProfile node{.node = "a", .device_type = "cpu", .by_lbs = {}};
  // A further round takes far more than the passes, which only the measured model believes.
  node.by_lbs[4] = {.max_vsw = 1,
                    .total_memory = {},
                    .compute = {{.vsw = 1,
                                 .total_ms = 100,
                                 .data_ms = 1,
                                 .forward_ms = 10,
                                 .backward_ms = 20,
                                 .update_ms = 5,
                                 .round_ms = 90}}};
  ASSERT_TRUE(profile::save_profiles(folder.path(), {.model = "m", .nodes = {node}, .buckets = {{1}}}).ok());
  const std::string cluster = folder.write("cluster.yaml", "nodes:\n- {name: a, type: cpu, devices: 1}\n");
  const std::string plan = folder.file("plan.json");
  const std::vector<std::string> where{"--cluster", cluster, "--profiles", folder.path()};
  const auto seconds = [&](std::vector<std::string> command, const std::string& cost) {
    command.insert(command.end(), where.begin(), where.end());
    if (!cost.empty()) command.insert(command.end(), {"--cost", cost});
    const base::Document json = yoke_json(command);
    base::Reader reader(json);
    return reader.root().field("step_seconds").number();
  };
  std::map<std::string, double> simulated;
  for (const std::string cost : {"", "auto", "measured", "iidp"}) {
    const double planned = seconds({"plan", "batch", "--gbs", "12", "--lbs", "4", "--out", plan}, cost);
    simulated[cost] = seconds({"simulate", plan}, cost);
    EXPECT_NEAR(simulated[cost], planned, 1e-6) << cost;
  }
  EXPECT_NEAR(simulated["measured"], 0.100 + 2 * 0.090, 1e-9);
  EXPECT_EQ(simulated[""], simulated["measured"]);
  EXPECT_LT(simulated["iidp"], 0.8 * simulated["measured"]);
  const Outcome refused = yoke({"simulate", plan, where[0], where[1], where[2], where[3], "--cost", "measurd"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--cost: found `measurd`"));
}

TEST(Simulate, JitterNeedsTheSameSeed) {
  const Files files;
  const auto seconds = [&](const std::string& seed) {
    const base::Document json = yoke_json({"simulate", files.plan, "--jitter", "0.2", "--seed", seed});
    base::Reader reader(json);
    return reader.root().field("seconds").number();
  };
  EXPECT_EQ(seconds("3"), seconds("3"));
  EXPECT_NE(seconds("3"), seconds("4"));
}

TEST(Simulate, RefusesWhatDoesNotBelongTogether) {
  const Files files;
  const auto refused = [&](std::vector<std::string> arguments, const std::string& part) {
    arguments.insert(arguments.begin(), {"simulate", files.plan});
    const Outcome outcome = yoke(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(part));
  };
  refused({"--profile", files.graph}, "--cluster: found none");
  refused({"--steps", "0"}, "--steps: found 0");
  refused({"--jitter", "1"}, "--jitter: found 1");
  refused({"--latency", "soon"}, "--latency");
  refused({"--switch", "0"}, "--switch");
  const std::string other = files.folder.write(
      "other.txt",
      "a -- Conv -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=1.0, parameter_size=1.0\n"
      "c -- Conv -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=1.0, parameter_size=1.0\n"
      "\ta -- c\n");
  refused({"--profile", other, "--cluster", files.cluster}, "the plan has the layer `b`, which is not in the profile");
  const std::string small = files.folder.write(
      "small.yaml", "nodes:\n  - {name: node0, devices: 1, intra_bandwidth: 10GB/s, inter_bandwidth: 1GB/s}\n");
  refused({"--cluster", small}, "node0:1: node0 has 1 device, numbered from 0");
  const std::string elsewhere = files.folder.write("else.yaml", "nodes:\n  - {name: node1, devices: 2}\n");
  refused({"--cluster", elsewhere}, "the cluster has no node `node0`");
}

TEST(Simulate, SaysWhenTheMemoryIsTooSmall) {
  const Files files;
  const std::string tight =
      files.folder.write("tight.yaml", "nodes:\n  - {name: node0, devices: 2, memory: 1GB, intra_bandwidth: 10GB/s}\n");
  const base::Document json = yoke_json({"simulate", files.plan, "--profile", files.graph, "--cluster", tight});
  base::Reader reader(json);
  EXPECT_FALSE(reader.root().field("fits_memory").boolean());
}

TEST(Simulate, ExplainDrawsTheTimelineOfAPipeline) {
  const Files files("gpipe");
  const std::string svg = files.folder.file("plan.svg");
  ASSERT_EQ(yoke({"explain", files.plan, "--svg", svg}).code, 0);
  EXPECT_THAT(read_text(svg), AllOf(StartsWith("<svg"), HasSubstr("forward of worker 0 with version 0")));
}

}  // namespace
}  // namespace yoke::cli
