// Unusual and bad input to the planner, through the command line: the right answer, or the exit code and a message that
// says what to change. One test for each kind of input the planner promises to take.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/cli/run_yoke.h"
#include "tests/support/temp_folder.h"

namespace yoke::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using yoke::testing::TempFolder;

constexpr const char* kBandwidths = "intra_bandwidth: 10GB/s, inter_bandwidth: 1GB/s";

/// A cluster file and a profile folder in which every profiled node takes 10 ms per sample at local batch sizes 2
/// and 4.
class SmallJob {
 public:
  explicit SmallJob(const std::string& nodes) {
    cluster_ = folder_.write("cluster.yaml", "nodes:\n" + nodes);
    folder_.write("profiles/buckets.json", R"({"format": "yoke-buckets", "model": "m", "mebibytes": [10, 5]})");
    comm(1, 2);
  }

  /// All-reduce measurements: `at_ten` ms where 10 are ideal, `at_hundred` where 100 are.
  void comm(double at_ten, double at_hundred) const {
    const std::string points = fmt::format(
        R"([{{"ideal_ms": 10, "measured_ms": {}}}, {{"ideal_ms": 100, "measured_ms": {}}}])", at_ten, at_hundred);
    folder_.write("profiles/comm.json",
                  fmt::format(R"({{"format": "yoke-comm", "intra": {0}, "inter": {0}}})", points));
  }

  /// `max_vsw` 0: not even one worker fits.
  void profile(const std::string& node, const std::string& type, int max_vsw, double ms_per_sample = 10,
               const std::string& memory = "null") const {
    std::string batches;
    for (const int lbs : {2, 4}) {
      const double ms = ms_per_sample * lbs;
      const std::string compute =
          fmt::format(R"({{"vsw": 1, "total_ms": {0}, "data_ms": 0, "forward_ms": {1}, "backward_ms": {1}, )"
                      R"("update_ms": 1, "copy_ms": 0, "bn_sync_ms": 0}})",
                      ms, ms / 2);
      batches += fmt::format(R"({}{{"lbs": {}, "max_vsw": {}, "total_memory": {}, "compute": [{}]}})",
                             batches.empty() ? "" : ", ", lbs, max_vsw, memory, max_vsw == 0 ? "" : compute);
    }
    folder_.write("profiles/nodes/" + node + ".json",
                  fmt::format(R"({{"format": "yoke-node-profile", "model": "m", "node": "{}", "device_type": "{}", )"
                              R"("local_batches": [{}]}})",
                              node, type, batches));
  }

  std::vector<std::string> arguments(const std::string& command, std::vector<std::string> more) const {
    std::vector<std::string> all{"plan", command, "--cluster", cluster_, "--profiles", folder_.file("profiles")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Outcome batch(std::vector<std::string> more) const { return yoke(arguments("batch", std::move(more))); }

 private:
  TempFolder folder_;
  std::string cluster_;
};

std::string node(const std::string& name, const std::string& more) {
  return fmt::format("  - {{name: {}, {}, {}}}\n", name, kBandwidths, more);
}

TEST(BadInput, AProfileThatDoesNotCoverANode) {
  const SmallJob job(node("a", "type: x") + node("b", "type: y"));
  job.profile("a", "x", 1);
  const Outcome missing = job.batch({"--gbs", "8"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("no profile covers node b (y)"), HasSubstr("profile it")));
  job.profile("b", "z", 1);
  const Outcome mistyped = job.batch({"--gbs", "8"});
  EXPECT_EQ(mistyped.code, 2);
  EXPECT_THAT(mistyped.err, AllOf(HasSubstr("node b"), HasSubstr("`y`"), HasSubstr("`z`")));
  // A node of a profiled type needs none of its own, at the same speed.
  const SmallJob like(node("a", "type: x") + node("b", "type: x"));
  like.profile("a", "x", 1);
  EXPECT_EQ(like.batch({"--gbs", "8"}).code, 0);
  const SmallJob slower(node("a", "type: x") + node("b", "type: x, speed: 0.5"));
  slower.profile("a", "x", 1);
  EXPECT_THAT(slower.batch({"--gbs", "8"}).err, HasSubstr("of the same type and speed"));
}

TEST(BadInput, ZeroBandwidth) {
  const SmallJob job("  - {name: a, devices: 2, intra_bandwidth: 0, inter_bandwidth: 1GB/s}\n");
  job.profile("a", "cpu", 1);
  const Outcome zero = job.batch({"--gbs", "8"});
  EXPECT_EQ(zero.code, 2);
  EXPECT_THAT(zero.err, AllOf(HasSubstr("cluster.yaml:2"), HasSubstr("intra_bandwidth")));
  const SmallJob absent("  - {name: a, devices: 2}\n");
  absent.profile("a", "cpu", 1);
  EXPECT_THAT(absent.batch({"--gbs", "8"}).err, HasSubstr("set its intra_bandwidth"));
  const TempFolder folder;
  const std::string graph = folder.write("graph.txt", kChain);
  for (const std::string cost : {"overlap", "pipedream"}) {
    for (const std::string bandwidth : {"0", "-1", "0GB/s", "nan", "inf"}) {
      const Outcome outcome =
          yoke({"plan", "pipeline", "--profile", graph, "--devices", "2", "--bandwidth=" + bandwidth, "--cost", cost});
      EXPECT_EQ(outcome.code, 2) << bandwidth;
      EXPECT_THAT(outcome.err, HasSubstr("--bandwidth")) << bandwidth;
    }
  }
}

TEST(BadInput, AGlobalBatchSmallerThanTheDeviceCount) {
  const SmallJob job(node("a", "devices: 8"));
  job.profile("a", "cpu", 2);
  const Outcome small = job.batch({"--gbs", "6"});
  EXPECT_EQ(small.code, 3);
  EXPECT_THAT(small.err, AllOf(HasSubstr("each of the 8 devices needs a worker"), HasSubstr("only 3"),
                               HasSubstr("the smallest batch size with a solution is 16"),
                               HasSubstr("with --may-idle it runs on 3 of them")));
  EXPECT_EQ(job.batch({"--gbs", "6", "--may-idle"}).code, 0);
  // Between two that work, both are named.
  const Outcome odd = job.batch({"--gbs", "17"});
  EXPECT_EQ(odd.code, 3);
  EXPECT_THAT(odd.err, HasSubstr("16 and 18"));
}

TEST(BadInput, MemoryThatFitsNoWorker) {
  const SmallJob job(node("a", "type: x") + node("b", "type: y"));
  job.profile("a", "x", 1);
  job.profile("b", "y", 0);
  const Outcome none = job.batch({"--gbs", "8"});
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.err, AllOf(HasSubstr("node b (y) runs no worker"), HasSubstr("memory")));
  const base::Document idle = yoke_json(job.arguments("batch", {"--gbs", "8", "--may-idle"}));
  base::Reader reader(idle);
  EXPECT_EQ(reader.root().field("nodes").items().size(), 1U);
  const SmallJob nowhere(node("a", "type: x"));
  nowhere.profile("a", "x", 0);
  const Outcome outcome = nowhere.batch({"--gbs", "8"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("memory: not one worker"));

  const TempFolder folder;
  const std::string graph = folder.write("graph.txt", kChain);
  const Outcome pipeline =
      yoke({"plan", "pipeline", "--profile", graph, "--devices", "2", "--bandwidth", "1e9", "--memory", "1MB"});
  EXPECT_EQ(pipeline.code, 3);
  EXPECT_THAT(pipeline.err, AllOf(HasSubstr("memory:"), HasSubstr("optimizer state")));
}

TEST(BadInput, ASingleDevice) {
  const SmallJob job("  - {name: a}\n");
  job.profile("a", "cpu", 1);
  const base::Document document = yoke_json(job.arguments("batch", {"--gbs", "6"}));
  base::Reader reader(document);
  // Three workers of 2, one after another, two buckets and the update; an all-reduce of one device moves nothing but
  // the line through the measurements has its intercept.
  EXPECT_EQ(reader.root().field("lbs").integer(), 2);
  auto lanes = reader.root().field("nodes").items();
  ASSERT_EQ(lanes.size(), 1U);
  EXPECT_EQ(lanes[0].field("ga").integer(), 2);
  const TempFolder folder;
  const std::string graph = folder.write("graph.txt", kChain);
  for (const std::string cost : {"overlap", "pipedream"}) {
    const base::Document one =
        yoke_json({"plan", "pipeline", "--profile", graph, "--devices", "1", "--bandwidth", "1e9", "--cost", cost});
    base::Reader pipeline(one);
    EXPECT_NEAR(pipeline.root().field("seconds_per_minibatch").number(), 0.009, 1e-12) << cost;
    EXPECT_EQ(pipeline.root().field("stages").items().size(), 1U);
  }
}

TEST(BadInput, OneLayerGraphs) {
  const TempFolder folder;
  const std::string graph = folder.write(
      "graph.txt",
      "a -- Conv -- forward_compute_time=4.0, backward_compute_time=4.0, activation_size=1.0, parameter_size=1.0\n");
  for (const std::string cost : {"overlap", "pipedream"}) {
    const base::Document document =
        yoke_json({"plan", "pipeline", "--profile", graph, "--devices", "4", "--bandwidth", "1e9", "--cost", cost});
    base::Reader reader(document);
    EXPECT_NEAR(reader.root().field("seconds_per_minibatch").number(), 0.002, 1e-8) << cost;
    auto stages = reader.root().field("stages").items();
    ASSERT_EQ(stages.size(), 1U);
    EXPECT_EQ(stages[0].field("replicas").integer(), 4);
  }
  EXPECT_EQ(yoke({"plan", "pipeline", "--profile", graph, "--devices", "2", "--bandwidth", "1e9", "--cost", "pipedream",
                  "--straight"})
                .code,
            3);
}

TEST(BadInput, ThousandsOfDevices) {
  std::string nodes;
  for (int i = 0; i < 500; ++i)
    nodes += node(fmt::format("n{}", i), i % 2 == 0 ? "devices: 8, type: x" : "devices: 8, type: y");
  const SmallJob job(nodes);
  job.profile("n0", "x", 1, 10);
  job.profile("n1", "y", 1, 20);
  const base::Document document = yoke_json(job.arguments("batch", {"--gbs", "24000"}));
  base::Reader reader(document);
  EXPECT_EQ(reader.root().field("nodes").items().size(), 500U);
  EXPECT_EQ(reader.root().field("workers").integer() * reader.root().field("lbs").integer(), 24000);
  EXPECT_TRUE(reader.root().field("proven").boolean());

  const TempFolder folder;
  const std::string graph = folder.write("graph.txt", kChain);
  const base::Document pipeline = yoke_json(
      {"plan", "pipeline", "--profile", graph, "--devices", "8,500", "--bandwidth", "1e10,1e9", "--cost", "pipedream"});
  base::Reader pipeline_reader(pipeline);
  EXPECT_LT(pipeline_reader.root().field("seconds_per_minibatch").number(), 0.009);
  const Outcome refused =
      yoke({"plan", "pipeline", "--profile", graph, "--devices", "8,500", "--bandwidth", "1e10,1e9"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("--devices: found 4000 devices"), HasSubstr("at most 1024")));
}

TEST(BadInput, DisconnectedGraphs) {
  const TempFolder folder;
  const std::string apart =
      folder.write("graph.txt", std::string(kChain) +
                                    "c -- Conv -- forward_compute_time=1, backward_compute_time=1, activation_size=1, "
                                    "parameter_size=1\n");
  for (const std::string cost : {"overlap", "pipedream"}) {
    const Outcome outcome =
        yoke({"plan", "pipeline", "--profile", apart, "--devices", "2", "--bandwidth", "1e9", "--cost", cost});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("`a`"), HasSubstr("`c`"))) << outcome.err;
  }
  EXPECT_EQ(
      yoke({"plan", "pipeline", "--profile", folder.write("empty.txt", ""), "--devices", "2", "--bandwidth", "1"}).code,
      2);
}

TEST(BadInput, EveryOptionIsNamed) {
  const SmallJob job(node("a", "devices: 2"));
  job.profile("a", "cpu", 1);
  const auto batch = [&](const std::string& option, const std::string& value) {
    std::vector<std::string> more{option + "=" + value};
    if (option != "--gbs") more.emplace_back("--gbs=8");
    const Outcome outcome = job.batch(more);
    EXPECT_EQ(outcome.code, 2) << option << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(option));
  };
  batch("--gbs", "0");
  batch("--gbs", "-4");
  batch("--gbs", "2000000000");
  batch("--gbs", "many");
  batch("--lbs", "3");
  batch("--unit", "0");
  batch("--sync", "overlop");
  batch("--servers", "z");
  const auto scale = [&](const std::string& option, const std::string& value, std::vector<std::string> more = {}) {
    for (const std::string given : {"--gbs=8", "--samples=100", "--trajectory=8"}) {
      if (!given.starts_with(option + "=") && !(option == "--history" && given.starts_with("--traj")))
        more.push_back(given);
    }
    more.push_back(option + "=" + value);
    const Outcome outcome = yoke(job.arguments("scale", more));
    EXPECT_EQ(outcome.code, 2) << option << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(option));
  };
  scale("--gbs", "0");
  scale("--samples", "0");
  scale("--interval", "0");
  scale("--trajectory", "8,0");
  scale("--history", "100:8,100:9");
  scale("--history", "100");
  scale("--present", "a:3");
  scale("--present", "a");
  scale("--move-time", "soon");
  scale("--objective", "speed");
  scale("--deadline", "-3s", {"--objective=cost"});
  scale("--budget", "-1");
  scale("--unit", "0");
  const TempFolder folder;
  const std::string graph = folder.write("graph.txt", kChain);
  const auto pipeline = [&](const std::string& option, const std::string& value) {
    std::vector<std::string> arguments{"plan", "pipeline", "--profile", graph, option + "=" + value};
    if (option != "--devices") arguments.emplace_back("--devices=2");
    if (option != "--bandwidth") arguments.emplace_back("--bandwidth=1e9");
    const Outcome outcome = yoke(arguments);
    EXPECT_EQ(outcome.code, 2) << option << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(option));
  };
  pipeline("--devices", "0");
  pipeline("--devices", "5000");
  pipeline("--bandwidth", "fast");
  pipeline("--micro-batches", "0");
  pipeline("--optimizer-copies", "-1");
  pipeline("--memory", "much");
  pipeline("--schedule", "1f1b");
  pipeline("--cost", "free");
  pipeline("--compression", "0");
  pipeline("--lbs", "0");
}

TEST(BadInput, SameInputSamePlan) {
  const SmallJob job(node("a", "devices: 3, type: x") + node("b", "devices: 2, type: y"));
  job.profile("a", "x", 3, 10);
  job.profile("b", "y", 3, 17);
  const auto plan_of = [](std::string out) { return out.substr(0, out.find("\"solve_seconds\"")); };
  for (const std::string gbs : {"20", "36", "52"}) {
    const auto arguments = job.arguments("batch", {"--json", "--gbs", gbs});
    EXPECT_EQ(plan_of(yoke(arguments).out), plan_of(yoke(arguments).out));
  }
  // Ties: the smaller local batch size. Without overheads 2 x 2 takes as long as 1 x 4.
  const SmallJob tie("  - {name: a}\n");
  tie.profile("a", "cpu", 1);
  const base::Document document = yoke_json(tie.arguments("batch", {"--gbs", "8"}));
  base::Reader reader(document);
  EXPECT_EQ(reader.root().field("lbs").integer(), 2);
}

TEST(Contradictions, AreSaidAndTheProfileCounts) {
  const SmallJob job(node("a", "type: x, memory: 16GB") + node("b", "type: x, memory: 8GB, speed: 0.5"));
  job.profile("a", "x", 1, 10, "17000000000");
  job.profile("b", "x", 1, 10, "17000000000");
  job.comm(2, 1);
  const base::Document document = yoke_json(job.arguments("batch", {"--gbs", "8"}));
  base::Reader reader(document);
  auto warnings = reader.root().field("warnings").items();
  ASSERT_EQ(warnings.size(), 4U);
  EXPECT_THAT(warnings[0].text(), AllOf(HasSubstr("inside a node"), HasSubstr("measure them again")));
  EXPECT_THAT(warnings[1].text(), HasSubstr("between nodes"));
  EXPECT_THAT(warnings[2].text(), AllOf(HasSubstr("node b has 8.0 GB"), HasSubstr("may not fit")));
  EXPECT_THAT(warnings[3].text(), AllOf(HasSubstr("0.5 times"), HasSubstr("1 times by their profiles")));
  job.profile("b", "x", 1, 20, "8000000000");
  job.comm(1, 2);
  EXPECT_THAT(yoke(job.arguments("batch", {"--gbs", "8", "--json"})).out, Not(HasSubstr("warnings")));
}

TEST(PlanScale, NamesTheBatchItPriced) {
  const SmallJob job(node("a", "devices: 2"));
  job.profile("a", "cpu", 1);
  const auto arguments = job.arguments("scale", {"--gbs", "9", "--samples", "900", "--trajectory", "9,11.2"});
  const base::Document document = yoke_json(arguments);
  base::Reader reader(document);
  auto batches = reader.root().field("chosen").field("batches").items();
  ASSERT_FALSE(batches.empty());
  double samples = 0;
  for (auto& batch : batches) {
    EXPECT_EQ(batch.field("gbs").integer() % batch.field("lbs").integer(), 0);
    EXPECT_NEAR(static_cast<double>(batch.field("gbs").integer()), batch.field("forecast").items()[0].number(), 2);
    samples += batch.field("samples").number();
  }
  EXPECT_DOUBLE_EQ(samples, 900);
  EXPECT_THAT(yoke(arguments).out, AllOf(HasSubstr("priced as"), HasSubstr("(forecast 9)")));
}

}  // namespace
}  // namespace yoke::cli
