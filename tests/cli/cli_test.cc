// The command line as scripts and people use it: exit codes, the JSON contract, messages. Runs `yoke` in process.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/cli/run_yoke.h"
#include "tests/support/files.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include "yoke/cluster/cluster_file.h"
#include "yoke/comm/join.h"
#include "yoke/plan/job.h"
#include "yoke/plan/plan.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using yoke::testing::shared_data;
using yoke::testing::TempFolder;

TEST(Cli, HelpFitsAScreen) {
  const Outcome help = yoke({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_LE(std::count(help.out.begin(), help.out.end(), '\n'), 24);
  EXPECT_EQ(yoke({"--version"}).code, 0);
}

TEST(Cli, BadUsageIsExitTwoWithTheNearestName) {
  const Outcome command = yoke({"plam"});
  EXPECT_EQ(command.code, 2);
  EXPECT_THAT(command.err, HasSubstr("did you mean `plan`?"));
  const Outcome option = yoke({"plan", "batch", "--gsb", "4"});
  EXPECT_EQ(option.code, 2);
  EXPECT_THAT(option.err, AllOf(HasSubstr("did you mean `--gbs`?"), HasSubstr("`yoke plan batch --help`")));
  EXPECT_EQ(yoke({"plan"}).code, 2);
  EXPECT_THAT(yoke({"plan"}).err, HasSubstr("found no command, expected auto, batch, pipeline or scale"));
  EXPECT_EQ(yoke({"plan", "batch", "--gbs", "8"}).code, 2) << "neither --config nor --cluster";
}

TEST(Cli, BadValuesNameTheOption) {
  const auto expect = [](const std::vector<std::string>& arguments, const std::string& message) {
    const Outcome outcome = yoke(arguments);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_THAT(outcome.err, StartsWith("yoke: error: " + message));
    EXPECT_EQ(outcome.out, "");
  };
  expect({"plan", "batch", "--gbs", "many"}, "--gbs: found `many`, expected a whole number");
  expect({"plan", "batch", "--gbs", ""}, "--gbs: found ``, expected a whole number");
  expect({"plan", "batch", "--gbs", "1.5"}, "--gbs: found `1.5`, expected a whole number");
  expect({"plan", "batch", "--gbs", "１２"}, "--gbs: found `１２`, expected a whole number");
  expect({"plan", "batch", "--gbs", "99999999999"}, "--gbs: found `99999999999`, expected a whole number of at most");
  expect({"plan", "batch", "--gbs", "8", "--gbs", "9"}, "--gbs: found 2 values, expected one");
  expect({"plan", "batch", "--gbs"}, "--gbs: found no value, expected one");
  expect({"plan", "batch", "--gbs", "8", "--may-idle=7"}, "--may-idle: found a value, expected none");
  expect({"plan", "batch", "--gbs", "8", "--out", ""}, "--out: found an empty text, expected a value");
  expect({"plan", "batch", "--gbs", "8", "--servers", "a,,b"}, "--servers: found an empty text, expected a value");
  expect({"plan", "pipeline", "--profile", "x", "--devices", "4,"}, "--devices: found ``, expected a whole number");
  expect({"plan", "pipeline", "--profile", "x", "--compression", "nan"},
         "--compression: found `nan`, expected a number");
  expect({"explain", ""}, "plan: found an empty text, expected a value");
  expect({"import", "hostfile", "a", "b", "--out", "c"}, "unknown argument `b`");
  expect({"doctor", "--log-format", "xml"}, "--log-format: found `xml`, expected text or json");
  expect({"doctor", "--log-level", "info"}, "--log-level: found 2 values, expected one; give it once");
  const base::Document document = yoke_json({"plan", "batch", "--gbs", "many"}, 2);
  base::Reader reader(document);
  EXPECT_EQ(reader.root().field("error").field("where").text(), "--gbs");
  yoke_json({"plan", "batch", "--gbs", "8", "--lbs"}, 2);  // the parser stops before it reads --json
}

TEST(Cli, ErrorsAreOneJsonObject) {
  const base::Document document = yoke_json({"plan", "batch", "--gbs", "8", "--config", "/nowhere/config.json"}, 2);
  base::Reader reader(document);
  base::View error = reader.root().field("error");
  EXPECT_EQ(error.field("kind").text(), "input");
  EXPECT_THAT(error.field("where").text(), HasSubstr("/nowhere/config.json"));
  EXPECT_THAT(error.field("message").text(), HasSubstr("No such file"));
  EXPECT_TRUE(reader.ok());
}

TEST(PlanBatch, PrintsTheContract) {
  const base::Document document = yoke_json(example_batch("1024"));
  base::Reader reader(document);
  base::View root = reader.root();
  EXPECT_EQ(root.field("gbs").integer(), 1024);
  const auto lbs = root.field("lbs").integer();
  const auto workers = root.field("workers").integer();
  EXPECT_EQ(lbs * workers, 1024);
  EXPECT_THAT(root.field("sync").text(), ::testing::AnyOf("overlap", "sequential"));
  EXPECT_NEAR(root.field("samples_per_second").number() * root.field("step_seconds").number(), 1024, 1e-6);
  std::int64_t dealt = 0;
  for (auto& node : root.field("nodes").items()) {
    EXPECT_FALSE(node.field("node").text().empty());
    dealt += node.field("devices").integer() * node.field("vsw").integer() * (node.field("ga").integer() + 1);
  }
  EXPECT_EQ(dealt, workers);
  EXPECT_GE(root.field("solve_seconds").number(), 0);
  EXPECT_TRUE(reader.ok()) << reader.error().to_string();
}

TEST(PlanBatch, ShowsTheGainOverAnEqualSplit) {
  const Outcome table = yoke(example_batch("1024"));
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("alpha"), HasSubstr("gamma"), HasSubstr("equal split"), HasSubstr("x as fast"),
                               HasSubstr("proven optimal")));
}

TEST(PlanBatch, InfeasibleIsExitThreeAndSaysWhatWouldWork) {
  const Outcome outcome = yoke(example_batch("64"));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("smallest batch size with a solution is 160"), HasSubstr("--may-idle")));
}

TEST(PlanBatch, ReproducesThePublishedResults) {
  YOKE_NEEDS_SHARED_DATA();
  const base::Document jabas = yoke_json({"plan", "batch", "--config", shared_data() + "/jabas-quickstart/config.json",
                                          "--gbs", "128", "--unit", "4", "--may-idle"});
  base::Reader jabas_reader(jabas);
  EXPECT_EQ(jabas_reader.root().field("lbs").integer(), 32);
  auto nodes = jabas_reader.root().field("nodes").items();
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].field("node").text(), "node0");
  EXPECT_EQ(nodes[0].field("vsw").integer(), 1);
  EXPECT_EQ(nodes[0].field("ga").integer(), 0);

  const base::Document iidp = yoke_json(
      {"plan", "batch", "--config", shared_data() + "/iidp-quickstart/config.json", "--gbs", "512", "--unit", "4"});
  base::Reader iidp_reader(iidp);
  auto lanes = iidp_reader.root().field("nodes").items();
  ASSERT_EQ(lanes.size(), 2U);
  EXPECT_EQ(lanes[0].field("vsw").integer(), 3);
  EXPECT_EQ(lanes[1].field("vsw").integer(), 1);
  EXPECT_EQ(iidp_reader.root().field("sync").text(), "overlap");
}

TEST(Explain, ShowsAndDrawsTheSavedPlan) {
  const TempFolder folder;
  auto arguments = example_batch("1024");
  arguments.insert(arguments.end(), {"--out", folder.file("plan.json")});
  ASSERT_EQ(yoke(arguments).code, 0);
  const auto plan = plan::load_plan(folder.file("plan.json"));
  ASSERT_TRUE(plan.ok()) << plan.error().to_string();
  EXPECT_EQ(plan->gbs, 1024);
  const Outcome table = yoke({"explain", folder.file("plan.json"), "--svg", folder.file("plan.svg")});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("forward"), HasSubstr("all-reduce"), HasSubstr("(hidden)"), HasSubstr("gamma x4")));
  EXPECT_THAT(yoke::testing::read_text(folder.file("plan.svg")), AllOf(StartsWith("<svg"), HasSubstr("gamma x4")));
  const base::Document json = yoke_json({"explain", folder.file("plan.json")});
  base::Reader reader(json);
  double slowest = 0;
  for (auto& lane : reader.root().field("lanes").items())
    slowest = std::max(slowest, lane.field("step_seconds").number());
  EXPECT_NEAR(slowest, plan->step_seconds, 1e-9 * slowest);
}

TEST(Explain, RefusesABrokenPlan) {
  const TempFolder folder;
  const Outcome outcome = yoke({"explain", folder.write("plan.json", "{\"format\": \"yoke-plan\",\n\"gbs\": true}")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("plan.json"));
}

TEST(PlanPipeline, PrintsTheContractForBothCosts) {
  const TempFolder folder;
  const std::string graph = folder.write("graph.txt", kChain);
  for (const std::string cost : {"overlap", "pipedream"}) {
    const base::Document document = yoke_json(
        {"plan", "pipeline", "--profile", graph, "--devices", "2", "--bandwidth", "10Gbit/s", "--cost", cost});
    base::Reader reader(document);
    base::View root = reader.root();
    EXPECT_DOUBLE_EQ(root.field("single_seconds").number(), 0.009);
    EXPECT_NEAR(root.field("seconds_per_minibatch").number(), 0.006, 1e-12) << cost;
    EXPECT_GT(root.field("data_parallel_seconds").number(), 0.009);
    auto stages = root.field("stages").items();
    ASSERT_EQ(stages.size(), 2U);
    EXPECT_EQ(stages[0].field("layers").items()[0].text(), "a");
    EXPECT_EQ(stages[0].field("replicas").integer(), 1);
    EXPECT_EQ(root.field("stage_of").field("b").integer(), 1);
    EXPECT_TRUE(reader.ok()) << reader.error().to_string();
  }
}

TEST(PlanPipeline, PlansForUnlikeDevices) {
  const TempFolder folder;
  const std::string graph = folder.write("graph.txt", kChain);
  const std::string cluster = folder.write("cluster.yaml",
                                           "nodes:\n"
                                           "  - {name: slow, type: old, tflops: 5, inter_bandwidth: 10GB/s}\n"
                                           "  - {name: fast, type: new, tflops: 10, inter_bandwidth: 10GB/s}\n");
  const std::string plan = folder.file("plan.json");
  ASSERT_EQ(yoke({"plan", "pipeline", "--profile", graph, "--cluster", cluster, "--lbs", "32", "--out", plan}).code, 0);
  const auto loaded = plan::load_plan(plan);
  ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
  const auto& stages = loaded->pipeline_lanes.at(0).stages;
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[1].devices.at(0).node, "fast") << "the longer stage belongs on the faster device";
}

TEST(PlanPipeline, AStepCountsFillingAndDraining) {
  const TempFolder folder;
  const std::string graph = folder.write("graph.txt", kChain);
  const auto step = [&](const std::string& schedule) {
    const base::Document document = yoke_json({"plan", "pipeline", "--profile", graph, "--devices", "2", "--bandwidth",
                                               "10Gbit/s", "--micro-batches", "4", "--schedule", schedule});
    base::Reader reader(document);
    return reader.root().field("step_seconds").number();
  };
  const double transfer = 2 * 100 / 1.25e9;
  EXPECT_NEAR(step("1f1b-flush"), 0.003 + transfer + 0.006 + 3 * 0.006, 1e-12) << "the first goes through alone";
  EXPECT_NEAR(step("1f1b-stash"), 4 * 0.006, 1e-12);
  EXPECT_NEAR(step("2bw"), 4 * 0.006, 1e-12) << "never drained either";
}

TEST(PlanPipeline, BadOptionsNameTheOption) {
  const TempFolder folder;
  const std::string graph = folder.write("graph.txt", kChain);
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"plan", "pipeline", "--profile", graph};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return yoke(arguments);
  };
  EXPECT_THAT(run({"--devices", "4,4", "--bandwidth", "1e9"}).err,
              HasSubstr("--bandwidth: found 1 bandwidths for 2 levels"));
  EXPECT_THAT(run({"--devices", "4", "--bandwidth", "0"}).err, HasSubstr("--bandwidth: found `0`"));
  EXPECT_THAT(run({"--devices", "0", "--bandwidth", "1e9"}).err, HasSubstr("--devices: found 0"));
  EXPECT_THAT(run({"--devices", "4", "--bandwidth", "1e9", "--cost", "pipdream"}).err,
              HasSubstr("did you mean `pipedream`?"));
  EXPECT_THAT(run({"--devices", "4", "--bandwidth", "1e9", "--schedule", "1f1b"}).err, HasSubstr("--schedule"));
  EXPECT_THAT(run({"--devices", "4", "--bandwidth", "1e9", "--memory", "-5"}).err, HasSubstr("--memory"));
  EXPECT_THAT(run({}).err, HasSubstr("--devices"));
  EXPECT_EQ(run({"--devices", "2", "--bandwidth", "1e9", "--memory", "10B"}).code, 3) << "no stage fits ten bytes";
}

TEST(PlanScale, MovesOnlyWhenItPays) {
  const auto run = [](const std::string& move_time) {
    return yoke_json({"plan", "scale", "--cluster", kExample + "/cluster.yaml", "--profiles", kExample + "/profiles",
                      "--gbs", "1024", "--samples", "1000000", "--trajectory", "1024,1024", "--present", "gamma:1",
                      "--move-time", move_time});
  };
  const base::Document cheap = run("10s");
  base::Reader cheap_reader(cheap);
  EXPECT_TRUE(cheap_reader.root().field("move").boolean());
  const double moved = cheap_reader.root().field("chosen").field("epoch_seconds").number();
  const double stayed = cheap_reader.root().field("stay").field("epoch_seconds").number();
  EXPECT_LT(moved, stayed);
  EXPECT_GT(cheap_reader.root().field("chosen").field("epoch_cost").number(), 0);
  EXPECT_TRUE(cheap_reader.ok()) << cheap_reader.error().to_string();
  const base::Document dear = run("100h");
  base::Reader dear_reader(dear);
  EXPECT_FALSE(dear_reader.root().field("move").boolean());
}

TEST(PlanScale, CheapestUnderADeadline) {
  const std::vector<std::string> common{"plan",         "scale",
                                        "--cluster",    kExample + "/cluster.yaml",
                                        "--profiles",   kExample + "/profiles",
                                        "--gbs",        "1024",
                                        "--samples",    "1000000",
                                        "--trajectory", "1024"};
  const auto cost_with = [&](const std::string& deadline) {
    auto arguments = common;
    arguments.insert(arguments.end(), {"--objective", "cost", "--deadline", deadline});
    const base::Document document = yoke_json(arguments);
    base::Reader reader(document);
    EXPECT_LE(reader.root().field("chosen").field("epoch_seconds").number(),
              base::to_seconds(*base::parse_duration(deadline)));
    return reader.root().field("chosen").field("epoch_cost").number();
  };
  EXPECT_LE(cost_with("5h"), cost_with("15min"));
  auto impossible = common;
  impossible.insert(impossible.end(), {"--objective", "cost", "--deadline", "1s"});
  EXPECT_EQ(yoke(impossible).code, 3);
}

TEST(ProfileShow, ReadsEveryKind) {
  EXPECT_THAT(yoke({"profile", "show", kExample + "/profiles"}).out,
              AllOf(HasSubstr("max vsw"), HasSubstr("gradient buckets")));
  const TempFolder folder;
  EXPECT_THAT(yoke({"profile", "show", folder.write("graph.txt", kChain)}).out, HasSubstr("2 layers, 1 edges"));
  EXPECT_EQ(yoke({"profile", "show", folder.path()}).code, 2) << "an empty folder";
  EXPECT_EQ(yoke({"profile", "show", folder.write("empty", "")}).code, 2);
  yoke_json({"profile", "show", kExample + "/profiles"});
}

TEST(Import, HostfileBecomesAClusterFile) {
  const TempFolder folder;
  const std::string hosts = folder.write("hosts", "# racks\nnode0 slots=8\nnode1 slots=4 max_slots=8\n");
  const Outcome outcome = yoke({"import", "hostfile", hosts, "--out", folder.file("cluster.yaml")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("max_slots"));
  const auto cluster = cluster::load_cluster(folder.file("cluster.yaml"));
  ASSERT_TRUE(cluster.ok()) << cluster.error().to_string();
  EXPECT_EQ(cluster->device_count(), 12);
}

TEST(Import, EveryReferenceWorkspaceBecomesOursAndPlansAlike) {
  YOKE_NEEDS_SHARED_DATA();
  for (const std::string tool : {"jabas", "iidp"}) {
    const TempFolder folder;
    const std::string config = shared_data() + "/" + tool + "-quickstart/config.json";
    const Outcome outcome = yoke({"import", tool, config, "--out", folder.file("out")});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto job = plan::load_job(folder.file("out/job.yaml"));
    ASSERT_TRUE(job.ok()) << job.error().to_string();
    EXPECT_EQ(job->model.name, "resnet50");
    EXPECT_EQ(job->batch.adapt.has_value(), tool == "jabas");
    const auto step_seconds = [](const base::Document& document) {
      base::Reader reader(document);
      return reader.root().field("step_seconds").number();
    };
    EXPECT_DOUBLE_EQ(step_seconds(yoke_json({"plan", "batch", "--config", config, "--gbs", "1024"})),
                     step_seconds(yoke_json({"plan", "batch", "--cluster", folder.file("out/cluster.yaml"),
                                             "--profiles", folder.file("out/profiles"), "--gbs", "1024"})));
    EXPECT_EQ(yoke({"import", tool, config, "--out", folder.file("out")}).code, 2) << "must not overwrite";
  }
}

TEST(Import, JabasInitialConfigBecomesACluster) {
  YOKE_NEEDS_SHARED_DATA();
  const TempFolder folder;
  const std::string config = shared_data() + "/jabas-quickstart/config.json";
  ASSERT_EQ(
      yoke({"import", "jabas", config, "--initial", folder.write("1.json", "{\"0\": 2}"), "--out", folder.file("a")})
          .code,
      0);
  EXPECT_EQ(cluster::load_cluster(folder.file("a/initial-cluster.yaml"))->device_count(), 2);
  EXPECT_EQ(
      yoke({"import", "jabas", config, "--initial", folder.write("2.json", "{\"7\": 2}"), "--out", folder.file("b")})
          .code,
      2);
  EXPECT_FALSE(std::filesystem::exists(folder.file("b"))) << "half an import";
}

TEST(Import, PipedreamExperimentBecomesJobClusterAndPlan) {
  const TempFolder folder;
  const std::string driver =
      folder.write("d.yml",
                   "'log_directory': '/logs'\n'module': 'models.vgg16.gpus=4'\n'data_dir': '/data'\n"
                   "'container': 'c'\n'machines': ['h0:0', 'h0:1', 'h1:0']\n'batch_size': 64\n"
                   "'model_type': 'image_classification'\n'distributed_backend': 'nccl'\n'compress_in_gpu': False\n");
  const std::string partition = folder.write(
      "p.json",
      R"({"module_to_stage_map": [0, 1, 1], "stage_to_rank_map": {"0": [0, 1], "1": [2]}, "stage_to_depth_map": {"0": 1, "1": 0}})");
  const std::string graph = folder.write("graph.txt", kChain);
  const Outcome outcome = yoke({"import", "pipedream", driver, partition, graph, "--out", folder.file("out")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("compress_in_gpu"));
  const auto plan = plan::load_plan(folder.file("out/plan.json"));
  ASSERT_TRUE(plan.ok()) << plan.error().to_string();
  EXPECT_EQ(plan->gbs, 128);
  EXPECT_EQ(plan->pipeline_lanes.at(0).stages.at(0).devices.size(), 2U);
  EXPECT_EQ(plan->pipeline_lanes.at(0).stages.at(0).warmup, 1);
  const auto job = plan::load_job(folder.file("out/job.yaml"));
  ASSERT_TRUE(job.ok()) << job.error().to_string();
  EXPECT_EQ(job->model.name, "vgg16");
  EXPECT_EQ(job->parallel.schedule, "1f1b-stash");
  EXPECT_TRUE(profile::load_layers(folder.file("out/profiles")).ok());
}

TEST(Import, EveryReferenceGraphImports) {
  YOKE_NEEDS_SHARED_DATA();
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shared_data() + "/pipedream/profiles")) {
    const TempFolder folder;
    const Outcome outcome = yoke({"import", "pipedream", entry.path().string(), "--out", folder.file("out")});
    EXPECT_EQ(outcome.code, 0) << entry.path() << outcome.err;
    ++count;
  }
  EXPECT_EQ(count, 13);
}

TEST(Import, BadFilesLeaveNothing) {
  const TempFolder folder;
  for (const std::string content : {"", "{", "a -- b", "nonsense", "[1, 2]", "\xff\xfe\x00"}) {
    const Outcome outcome = yoke({"import", "pipedream", folder.write("bad", content), "--out", folder.file("out")});
    EXPECT_EQ(outcome.code, 2) << content;
    EXPECT_THAT(outcome.err, HasSubstr("bad"));
  }
  EXPECT_EQ(base::list_folder(folder.path())->size(), 1U) << "only the bad file itself";
}

TEST(Doctor, HasOneLinePerCheck) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer crashes in the threads that getaddrinfo_a makes";
#endif
  const TempFolder folder;
  const Outcome outcome = yoke({"doctor", "--hosts", "localhost", "--shared", folder.path()});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  for (const char* check : {"processors", "memory", "/dev/shm", "libtorch", "ports", "clock", "backend local",
                            "backend shm", "backend gloo", "host localhost", "folder"}) {
    EXPECT_THAT(outcome.out, HasSubstr(check));
  }
  EXPECT_TRUE(base::list_folder(folder.path())->empty()) << "the probe must be gone";
  EXPECT_EQ(yoke({"doctor", "--shared", folder.file("absent")}).code, 4);
  yoke_json({"doctor", "--shared", folder.file("absent")}, 4);
  yoke_json({"doctor"});
}

TEST(Doctor, TriesEveryBackendOfTheProgram) {
  yoke::testing::Process doctor({yoke::testing::program("yoke"), "doctor"});
  ASSERT_TRUE(doctor.wait(std::chrono::seconds(120)));
  EXPECT_EQ(doctor.exit_code(), 0) << doctor.output();
  for (const auto& info : comm::list_backends()) {
    const auto begin = doctor.output().find("backend " + info.name);
    ASSERT_NE(begin, std::string::npos) << info.name;
    const std::string line = doctor.output().substr(begin, doctor.output().find('\n', begin) - begin);
    if (info.available) {
      EXPECT_THAT(line, HasSubstr("1 MB summed in"));
    }
  }
}

}  // namespace
}  // namespace yoke::cli
