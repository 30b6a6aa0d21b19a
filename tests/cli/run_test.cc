// `yoke run` and `yoke train` as processes, with an engine that has no tensors (fake_engine.cc).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "tests/cli/run_yoke.h"
#include "tests/support/files.h"
#include "tests/support/mpirun.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tensorboard_reader.h"
#include "yoke/base/text.h"
#include "yoke/comm/join.h"
#include "yoke/comm/store/socket.h"
#include "yoke/plan/plan.h"

namespace yoke::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using yoke::testing::Process;
using yoke::testing::read_text;
using yoke::testing::TempFolder;
using namespace std::chrono_literals;

constexpr const char* kJob =
    "model: {name: fake}\ndata: {name: synthetic, limit: 42}\nbatch: {global: 4}\nepochs: 2\n"
    "checkpoint: {every_steps: 5, keep: 1}\n";
constexpr int kSteps = 21;

class Runs : public ::testing::Test {
 protected:
  Process start(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
    arguments.insert(arguments.begin(), yoke::testing::program("yoke_fake"));
    return Process(arguments, environment);
  }
  /// Runs to the end; stdout and stderr come together.
  Outcome run(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
    auto process = start(std::move(arguments), std::move(environment));
    EXPECT_TRUE(process.wait(60s)) << process.output();
    return {process.exit_code(), process.output(), {}};
  }
  std::vector<std::string> run_arguments(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"run", job_, "--cluster", cluster_, "--run-dir", folder()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string folder() const { return temp_.file("run"); }
  std::string in_folder(const std::string& name) const { return folder() + "/" + name; }

  /// The steps that metrics.jsonl tells of, in its order.
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> found;
    const std::string text = read_text(in_folder("metrics.jsonl"));
    for (const auto line : base::split(text, "\n")) {
      if (line.empty()) continue;
      const auto document = base::parse_json(line, "metrics.jsonl");
      EXPECT_TRUE(document.ok()) << line;
      base::Reader reader(*document);
      found.push_back(reader.root().field("step").integer());
    }
    return found;
  }
  static std::vector<std::int64_t> up_to(std::int64_t last) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 1; i <= last; ++i) all.push_back(i);
    return all;
  }
  std::string weights() const {
    const auto document = base::load_document(in_folder("result.json"));
    EXPECT_TRUE(document.ok());
    base::Reader reader(*document);
    return reader.root().field("weights_sha256").text();
  }
  /// Until metrics.jsonl has that many lines.
  bool wait_for_steps(std::size_t count) const {
    for (int i = 0; i < 3000; ++i) {
      const auto text = base::read_file(in_folder("metrics.jsonl"));
      if (text.ok() && static_cast<std::size_t>(std::count(text->begin(), text->end(), '\n')) >= count) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  const TempFolder temp_;
  const std::string job_ = temp_.write("fake.yaml", kJob);
  const std::string cluster_ = temp_.write("cluster.yaml", "nodes:\n- {name: node0, devices: 2, speed: 0.5}\n");
};

TEST_F(Runs, TheRunFolderHoldsEverything) {
  const Outcome outcome = run(run_arguments({"--trace", "--set", "optimizer.lr=0.25"}));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("21 steps, 84 samples"), HasSubstr("87.50%"), HasSubstr("run folder")));
  EXPECT_EQ(steps(), up_to(kSteps));
  EXPECT_THAT(read_text(in_folder("job.yaml")), HasSubstr("lr: 0.25"));
  EXPECT_THAT(read_text(in_folder("cluster.yaml")), HasSubstr("node0"));
  EXPECT_TRUE(plan::load_plan(in_folder("plan.json")).ok());
  const std::string events = read_text(in_folder("events.jsonl"));
  EXPECT_THAT(events, AllOf(HasSubstr("\"kind\":\"start\""), HasSubstr("\"kind\":\"checkpoint\""),
                            HasSubstr("\"time\":"), HasSubstr("\"kind\":\"hello\""), HasSubstr("\"rank\":1")));
  const auto result = base::load_document(in_folder("result.json"));
  ASSERT_TRUE(result.ok());
  base::Reader reader(*result);
  for (const char* key : {"steps", "samples", "epochs", "wall_seconds", "train_loss", "test_accuracy",
                          "predicted_step_seconds", "measured_step_seconds", "weights_sha256", "recoveries"}) {
    EXPECT_TRUE(reader.root().has(key)) << key;
  }
  EXPECT_TRUE(base::is_file(in_folder("logs/rank-0.log")));
  EXPECT_TRUE(base::is_file(in_folder("logs/rank-1.log")));

  std::map<std::string, std::size_t> scalars;
  const auto names = *base::list_folder(folder());
  for (const auto& name : names) {
    if (!name.starts_with("events.out.tfevents.")) continue;
    for (const auto& event : yoke::testing::read_board(read_text(in_folder(name)))) {
      for (const auto& [tag, value] : event.scalars) ++scalars[tag];
    }
  }
  EXPECT_EQ(
      scalars,
      (std::map<std::string, std::size_t>{
          {"gbs", kSteps}, {"loss", kSteps}, {"lr", kSteps}, {"samples_per_second", kSteps}, {"test_accuracy", 1}}));

  const auto trace = base::load_document(in_folder("trace.json"));
  ASSERT_TRUE(trace.ok()) << trace.error().to_string();
  base::Reader trace_reader(*trace);
  std::map<std::int64_t, int> spans;
  double latest = 0;
  for (auto& event : trace_reader.root().field("traceEvents").items()) {
    if (event.field("ph").text() != "X") continue;
    ++spans[event.field("pid").integer()];
    latest = std::max(latest, event.field("ts").number());
  }
  EXPECT_EQ(spans, (std::map<std::int64_t, int>{{0, kSteps}, {1, kSteps}}));
  EXPECT_LT(latest, 60e6) << "times count from the start of the run";
}

TEST_F(Runs, JsonIsOneObject) {
  Process process(
      {"/bin/sh", "-c",
       fmt::format("{} run {} --run-dir {} --json 2>/dev/null", yoke::testing::program("yoke_fake"), job_, folder())});
  ASSERT_TRUE(process.wait(60s));
  ASSERT_EQ(process.exit_code(), 0) << process.output();
  const auto document = base::parse_json(process.output(), "output");
  ASSERT_TRUE(document.ok()) << process.output();
  base::Reader reader(*document);
  EXPECT_EQ(reader.root().field("run_dir").text(), folder());
  EXPECT_EQ(reader.root().field("steps").integer(), kSteps);
}

TEST_F(Runs, TheFirstFailureIsReported) {
  const Outcome outcome = run(run_arguments(), {"YOKE_FAKE=1:3:kill"});
  EXPECT_EQ(outcome.code, 4) << outcome.out;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("rank 1 (node0:1 on "), HasSubstr("SIGKILL"), HasSubstr("dmesg"),
                    HasSubstr("| about to kill"), HasSubstr("step 2 was the last"), HasSubstr("logs/rank-1.log")));
  EXPECT_THAT(read_text(in_folder("events.jsonl")), HasSubstr("\"kind\":\"failure\""));
  EXPECT_EQ(steps(), up_to(2));
}

TEST_F(Runs, ExitCodesAreThoseOfTheFirstFailure) {
  const std::map<std::string, std::pair<int, std::string>> expected{
      {"1:3:segv", {4, "SIGSEGV"}},
      {"0:2:peer", {4, "the disk is full"}},
      {"0:1:input", {2, "job.yaml: model.name: found no such model"}},
      {"1:1:internal", {1, "a bug"}}};
  for (const auto& [fake, code] : expected) {
    std::filesystem::remove_all(folder());
    const Outcome outcome = run(run_arguments(), {"YOKE_FAKE=" + fake});
    EXPECT_EQ(outcome.code, code.first) << fake << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(code.second)) << fake;
  }
  // A run that never made a step is no obstacle to the next try.
  std::filesystem::remove_all(folder());
  EXPECT_EQ(run(run_arguments(), {"YOKE_FAKE=0:1:input"}).code, 2);
  EXPECT_EQ(run(run_arguments()).code, 0);
}

TEST_F(Runs, ResumeGoesOnAtTheExactSampleAndNoStepComesTwice) {
  ASSERT_EQ(run(run_arguments()).code, 0);
  const std::string undisturbed = weights();
  std::filesystem::remove_all(folder());

  ASSERT_EQ(run(run_arguments(), {"YOKE_FAKE=0:9:kill"}).code, 4);
  EXPECT_EQ(steps(), up_to(8)) << "the checkpoint is of step 5";
  EXPECT_EQ(run(run_arguments()).code, 2) << "without --resume";
  const Outcome resumed = run(run_arguments({"--resume", "--set", "optimizer.lr=0.5"}));
  ASSERT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_EQ(steps(), up_to(kSteps));
  EXPECT_EQ(weights(), undisturbed);
  EXPECT_THAT(read_text(in_folder("events.jsonl")),
              AllOf(HasSubstr("optimizer.lr is now 0.5, was 0.1"), HasSubstr("kept from before")));

  const Outcome other = run(run_arguments({"--resume", "--set", "model.name=other"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.out, AllOf(HasSubstr("model.name"), HasSubstr("begun with `fake`")));
  EXPECT_EQ(weights(), undisturbed) << "nothing is lost";
  const Outcome finished = run(run_arguments());
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.out, HasSubstr("is finished; --resume goes on"));
  // More epochs: the finished run goes on.
  ASSERT_EQ(run(run_arguments({"--resume", "--set", "epochs=3"})).code, 0);
  EXPECT_GT(steps().size(), static_cast<std::size_t>(kSteps));
}

TEST_F(Runs, CtrlCSavesAndTheRunGoesOn) {
  ASSERT_EQ(run(run_arguments()).code, 0);
  const std::string undisturbed = weights();
  std::filesystem::remove_all(folder());

  auto process = start(run_arguments(), {"YOKE_FAKE_STEP_MS=20"});
  ASSERT_TRUE(wait_for_steps(3));
  ::kill(process.pid(), SIGINT);
  ASSERT_TRUE(process.wait(30s)) << process.output();
  EXPECT_EQ(process.exit_code(), 130) << process.output();
  EXPECT_THAT(process.output(), AllOf(HasSubstr("saved"), HasSubstr("--resume` goes on")));
  EXPECT_FALSE(base::exists(in_folder("result.json"))) << "it is not finished";
  const auto before = steps();
  EXPECT_LT(before.size(), static_cast<std::size_t>(kSteps));

  const Outcome resumed = run(run_arguments({"--resume"}));
  ASSERT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_EQ(steps(), up_to(kSteps));
  EXPECT_EQ(weights(), undisturbed);
}

TEST_F(Runs, ASecondCtrlCKills) {
  auto process = start(run_arguments(), {"YOKE_FAKE=1:4:hang"});
  ASSERT_TRUE(wait_for_steps(3));
  ::kill(process.pid(), SIGINT);
  EXPECT_FALSE(process.wait(500ms)) << process.output();
  ::kill(process.pid(), SIGINT);
  ASSERT_TRUE(process.wait(30s)) << process.output();
  EXPECT_EQ(process.exit_code(), 130);
  EXPECT_THAT(process.output(), HasSubstr("killed before it could save"));
}

TEST_F(Runs, RanksDieWithTheLauncher) {
  auto process = start(run_arguments(), {"YOKE_FAKE=1:4:hang"});
  ASSERT_TRUE(wait_for_steps(3));
  const auto ranks = [&] {
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline", std::ios::binary);
      std::string command;
      std::getline(file, command, '\n');
      if (command.find(std::string("train") + '\0' + in_folder("job.yaml")) != std::string::npos) ++found;
    }
    return found;
  };
  EXPECT_EQ(ranks(), 2);
  ::kill(process.pid(), SIGKILL);
  ASSERT_TRUE(process.wait(10s));
  for (int i = 0; i < 500 && ranks() > 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(ranks(), 0);
  EXPECT_EQ(run(run_arguments({"--resume"})).code, 0) << "the lock went with the launcher";
  EXPECT_EQ(steps(), up_to(kSteps));
}

TEST_F(Runs, TwoRunsInOneFolderAreRefused) {
  auto first = start(run_arguments(), {"YOKE_FAKE_STEP_MS=50"});
  ASSERT_TRUE(wait_for_steps(1));
  const Outcome second = run(run_arguments({"--resume"}));
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.out, AllOf(HasSubstr("another run at work"), HasSubstr(fmt::format("pid {}", first.pid()))));
  ::kill(first.pid(), SIGINT);
  ASSERT_TRUE(first.wait(30s));
  EXPECT_EQ(first.exit_code(), 130) << "the first was not disturbed";
}

TEST_F(Runs, BadInputIsRefusedBeforeAnythingIsMade) {
  const auto expect = [&](std::vector<std::string> arguments, const std::string& message) {
    const Outcome outcome = run(std::move(arguments));
    EXPECT_EQ(outcome.code, 2) << message << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(message));
    EXPECT_FALSE(base::exists(folder())) << message;
  };
  expect({"run", temp_.file("none.yaml"), "--run-dir", folder()}, "none.yaml: cannot open the file");
  expect({"run", job_, "--cluster", temp_.file("none.yaml"), "--run-dir", folder()}, "none.yaml");
  expect(run_arguments({"--set", "modle.name=x"}), "--set modle.name: unknown key `modle`, did you mean `model`?");
  expect(run_arguments({"--backend", "shn"}),
         "--backend: found `shn`, expected auto, shm or gloo, did you mean `shm`?");
  expect(run_arguments({"--metrics-port", "66000"}), "--metrics-port: found 66000");
  expect(run_arguments({"--set", "profiles=nowhere"}), "profiles: found no folder");
  expect(run_arguments({"--set", "parallel.plan=none.json"}), "none.json");
  expect(run_arguments({"--resume"}), "no run to go on with");
  const std::string far = temp_.write("far.yaml", "nodes:\n- {name: far, address: 192.0.2.1, devices: 2}\n");
  expect({"run", job_, "--cluster", far, "--run-dir", folder()}, "mpirun -n 2 --host 192.0.2.1:2 yoke train " + job_);
  const auto taken = comm::listen_on("127.0.0.1", 0);
  ASSERT_TRUE(taken.ok());
  expect(run_arguments({"--metrics-port", std::to_string(comm::port_of(*taken))}), "Address already in use");
  EXPECT_THAT(run({"train", job_}).out, HasSubstr("RANK: found no variables of a launcher"));
}

TEST_F(Runs, APlanFileMustFitTheCluster) {
  plan::Plan plan{.model = "fake", .gbs = 4, .lbs = 2};
  plan.pipeline_lanes = {
      {.schedule = "1f1b-flush",
       .workers = 2,
       .stages = {
           {.layers = {"a"}, .devices = {{"node0", 0}}},
           {.layers = {"b"}, .devices = {{"node0", 1}}, .predicted = plan::StagePrediction{.memory_bytes = 3e9}}}}};
  const std::string file = temp_.write("plan.json", plan::to_json(plan));
  const auto refused = [&](const std::string& nodes, int code) {
    const std::string cluster = temp_.write("small.yaml", "nodes:\n" + nodes);
    const Outcome outcome =
        run({"run", job_, "--cluster", cluster, "--run-dir", folder(), "--set", "parallel.plan=" + file});
    EXPECT_EQ(outcome.code, code) << outcome.out;
    EXPECT_FALSE(base::exists(folder()));
    return outcome.out;
  };
  EXPECT_THAT(refused("- {name: node0, devices: 2, memory: 2GB}\n", 3),
              AllOf(HasSubstr("plan.json"), HasSubstr("pipeline_lanes[0].stages[1]"),
                    HasSubstr("stage 1 needs 3.0 GB on each device, but `node0:1` has 2.0 GB")));
  EXPECT_THAT(
      refused("- {name: node0}\n", 2),
      AllOf(HasSubstr("plan.json"), HasSubstr("found the device `node0:1`, which the cluster has not (node0:0)"),
            HasSubstr("--cluster")));
  const std::string enough = temp_.write("enough.yaml", "nodes:\n- {name: node0, devices: 2, memory: 3GB}\n");
  EXPECT_EQ(run({"run", job_, "--cluster", enough, "--run-dir", folder(), "--set", "parallel.plan=" + file}).code, 0);
}

TEST_F(Runs, MetricsAreServedWhileItRuns) {
  auto process = start(run_arguments({"--metrics-port", "0"}), {"YOKE_FAKE_STEP_MS=50"});
  ASSERT_TRUE(wait_for_steps(2));
  const std::string& output = process.read_line(10s);
  const auto at = output.find("http://127.0.0.1:");
  ASSERT_NE(at, std::string::npos) << output;
  const std::string url = output.substr(at, output.find('\n', at) - at);
  Process curl({"/usr/bin/python3", "-c",
                "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read().decode())", url});
  ASSERT_TRUE(curl.wait(20s));
  if (curl.exit_code() == 127) GTEST_SKIP() << "no python3";
  EXPECT_THAT(curl.output(), AllOf(HasSubstr("yoke_step{job=\"fake\"}"), HasSubstr("yoke_ranks{job=\"fake\"} 2")));
  ::kill(process.pid(), SIGINT);
  ASSERT_TRUE(process.wait(30s));
}

TEST_F(Runs, APlanFromProfilesIsComparedWithTheEqualSplit) {
  const std::string example = kExample;
  const Outcome outcome =
      run({"run", job_, "--cluster", example + "/cluster.yaml", "--run-dir", folder(), "--set",
           "profiles=" + example + "/profiles", "--set", "batch.global=640", "--set", "data.limit=1280"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("times as fast as the equal split"), HasSubstr("predicted")));
  const auto plan = plan::load_plan(in_folder("plan.json"));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->gbs, 640);
  EXPECT_THAT(read_text(in_folder("result.json")),
              AllOf(HasSubstr("equal_split_step_seconds"), HasSubstr("prediction_error")));
}

/// Two layers on two nodes, the second with 40 MB of weights.
constexpr const char* kLayers = R"({"format": "yoke-layers", "version": 2, "lbs": 2, "layers": [
  {"id": "a", "forward_ms": 5, "backward_ms": 10, "output_bytes": [100], "parameter_bytes": 4000, "update_ms": 1},
  {"id": "b", "forward_ms": 5, "backward_ms": 10, "output_bytes": [100], "parameter_bytes": 4e7, "update_ms": 9}],
  "edges": [["a", "b"]]})";

class PlannedRuns : public Runs {
 protected:
  std::vector<std::string> planned(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"run",       job_,     "--cluster", slow_,
                                       "--run-dir", folder(), "--set",     "profiles=" + temp_.file("profiles")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  plan::Plan plan() const {
    const auto plan = plan::load_plan(in_folder("plan.json"));
    EXPECT_TRUE(plan.ok()) << plan.error().to_string();
    return plan.ok() ? *plan : plan::Plan{};
  }
  static std::string two_nodes(const std::string& bandwidth) {
    return "nodes:\n- {name: a, inter_bandwidth: " + bandwidth + "}\n- {name: b, inter_bandwidth: " + bandwidth + "}\n";
  }

  const std::string layers_ = temp_.write("profiles/layers.json", kLayers);
  const std::string slow_ = temp_.write("slow.yaml", two_nodes("10MB/s"));
  const std::string fast_ = temp_.write("fast.yaml", two_nodes("100GB/s"));
};

TEST_F(PlannedRuns, PipelinesCompeteWhereThereIsALayerProfile) {
  const Outcome outcome = run(planned());
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  ASSERT_EQ(plan().pipeline_lanes.size(), 1U) << "40 MB a step over 10 MB/s";
  EXPECT_EQ(plan().lbs, 2);
  EXPECT_EQ(plan().workers(), 2);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("plan solved from"), HasSubstr("wins: data lanes"), HasSubstr("predicted:"),
                                 Not(HasSubstr("equal split"))));
  EXPECT_THAT(read_text(in_folder("events.jsonl")), AllOf(HasSubstr("wins: data lanes"), HasSubstr("step_seconds")));
  const std::string before = read_text(in_folder("plan.json"));
  ASSERT_EQ(run(planned({"--resume", "--set", "epochs=3"})).code, 0);
  EXPECT_EQ(read_text(in_folder("plan.json")), before);

  std::filesystem::remove_all(folder());
  const Outcome fast = run({"run", job_, "--cluster", fast_, "--run-dir", folder(), "--set",
                            "profiles=" + temp_.file("profiles"), "--set", "batch.local=2"});
  ASSERT_EQ(fast.code, 0) << fast.out;
  EXPECT_EQ(plan().data_lanes.size(), 2U);
  EXPECT_THAT(fast.out, AllOf(HasSubstr("data lanes: nothing else is worth a try"), HasSubstr("equal split")));
  EXPECT_THAT(read_text(in_folder("result.json")), HasSubstr("equal_split_step_seconds"));
}

TEST_F(PlannedRuns, APlanFromEstimatesIsSaidToBeOne) {
  const std::string told = "from estimates, not from measurements";
  const Outcome measured = run(planned());
  ASSERT_EQ(measured.code, 0) << measured.out;
  EXPECT_THAT(measured.out, Not(HasSubstr(told)));
  EXPECT_THAT(read_text(in_folder("result.json")), Not(HasSubstr("plan_source")));
  std::filesystem::remove_all(folder());
  temp_.write("profiles/layers.json", std::string(R"({"source": "estimate", )") + (kLayers + 1));
  const Outcome outcome = run(planned());
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("; " + told), HasSubstr("plan           " + told))) << "before and after";
  EXPECT_THAT(read_text(in_folder("events.jsonl")), HasSubstr(told));
  EXPECT_THAT(read_text(in_folder("result.json")), HasSubstr("\"plan_source\": \"estimate\""));
}

TEST_F(PlannedRuns, TheJobSaysWhatMayCompete) {
  const auto schedule_of = [&](std::vector<std::string> settings) {
    std::filesystem::remove_all(folder());
    std::vector<std::string> arguments{"run",       job_,     "--cluster", fast_,
                                       "--run-dir", folder(), "--set",     "profiles=" + temp_.file("profiles")};
    for (auto& each : settings) arguments.insert(arguments.end(), {"--set", std::move(each)});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    const auto lanes = plan().pipeline_lanes;
    return lanes.empty() ? std::string("data") : lanes.front().schedule;
  };
  EXPECT_EQ(schedule_of({"parallel.mode=pipeline"}), "1f1b-flush");
  EXPECT_EQ(schedule_of({"parallel.schedule=gpipe"}), "gpipe");
  EXPECT_EQ(schedule_of({"parallel.mode=pipeline", "parallel.schedule=1f1b-stash"}), "1f1b-stash");
  EXPECT_EQ(schedule_of({"parallel.schedule=data"}), "data");
}

TEST_F(PlannedRuns, WhatCannotBePlannedIsRefused) {
  const auto expect = [&](const std::vector<std::string>& arguments, const std::string& message, int code = 2) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << message << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(message));
    EXPECT_FALSE(base::exists(folder())) << message;
  };
  expect(run_arguments({"--set", "parallel.mode=pipeline"}),
         "parallel.mode: found `pipeline`, but neither `profiles` nor `parallel.plan`");
  expect(run_arguments({"--set", "parallel.schedule=gpipe", "--set", "batch.local=4"}),
         "`yoke profile layers --model fake --lbs 4 --out DIR`");
  expect(run_arguments({"--set", "parallel.mode=pipeline", "--set", "profiles=" + kExample + "/profiles"}),
         "but no layers.json in");
  expect(planned({"--set", "parallel.schedule=1f1b"}), "parallel.schedule: found `1f1b`");
  expect(planned({"--set", "parallel.schedule=gpipe", "--set", "parallel.mode=data"}),
         "parallel.schedule: found `gpipe`, which does not go with `parallel.mode: data`");
  expect(planned({"--set", "batch.local=4"}), "batch.local: found 4, expected 2, the minibatch size");
  expect(planned({"--set", "batch.global=5"}), "batch.global: found 5, expected a multiple of the local batch size 2");
  expect({"run", job_, "--cluster", cluster_, "--run-dir", folder(), "--set", "profiles=" + temp_.file("profiles")},
         "`intra_bandwidth` is missing");
}

TEST_F(PlannedRuns, MeasuredStepsDoWithoutPipelines) {
  temp_.write("profiles/nodes/a.json", R"({"format": "yoke-node-profile", "version": 2, "model": "fake", "node": "a",
    "device_type": "cpu", "local_batches": [{"lbs": 4, "max_vsw": 1, "compute": [{"vsw": 1, "total_ms": 30,
    "data_ms": 0, "forward_ms": 10, "backward_ms": 20, "update_ms": 0, "copy_ms": 0, "bn_sync_ms": 0}]}]})");
  temp_.write("profiles/buckets.json",
              R"({"format": "yoke-buckets", "version": 1, "model": "fake", "mebibytes": [1]})");
  const std::string alone = temp_.write("alone.yaml", "nodes:\n- {name: a}\n");
  const Outcome outcome = run({"run", job_, "--cluster", alone, "--run-dir", folder(), "--set",
                               "profiles=" + temp_.file("profiles"), "--set", "batch.local=4"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("pipelines are not considered: local batch size: found 4, expected 2"));
  EXPECT_EQ(plan().lbs, 4);
  // The layers of that size, as `yoke profile` leaves them, are found.
  std::string layers = kLayers;
  layers.replace(layers.find("\"lbs\": 2"), 8, "\"lbs\": 4");
  temp_.write("profiles/layers/a/4/layers.json", layers);
  std::filesystem::remove_all(folder());
  const Outcome found = run({"run", job_, "--cluster", alone, "--run-dir", folder(), "--set",
                             "profiles=" + temp_.file("profiles"), "--set", "batch.local=4"});
  ASSERT_EQ(found.code, 0) << found.out;
  EXPECT_THAT(found.out, Not(HasSubstr("not considered")));
}

TEST_F(PlannedRuns, AProfiledModelTrainsAsAPipeline) {
#if !YOKE_HAS_PROFILER
  GTEST_SKIP() << "this build has no libtorch to measure with";
#endif
  const std::string profiles = temp_.file("measured");
  Process measuring({yoke::testing::program("yoke"), "profile", "layers", "--model", "mlp", "--lbs", "16", "--budget",
                     "1s", "--out", profiles});
  ASSERT_TRUE(measuring.wait(120s)) << measuring.output();
  ASSERT_EQ(measuring.exit_code(), 0) << measuring.output();
  const std::string job = temp_.write("mlp.yaml",
                                      "model: {name: mlp}\ndata: {name: synthetic, limit: 192, shape: [1, 28, 28], "
                                      "classes: 10}\nbatch: {global: 64}\nprofiles: measured\n");
  for (const char* mode : {"pipeline", "auto"}) {
    std::filesystem::remove_all(folder());
    Process training({yoke::testing::program("yoke"), "run", job, "--cluster", slow_, "--run-dir", folder(), "--set",
                      std::string("parallel.mode=") + mode});
    ASSERT_TRUE(training.wait(120s)) << training.output();
    ASSERT_EQ(training.exit_code(), 0) << training.output();
    EXPECT_EQ(steps(), up_to(3));
    EXPECT_EQ(plan().lbs, 16);
    if (mode == std::string("pipeline")) {
      ASSERT_EQ(plan().pipeline_lanes.size(), 1U);
      EXPECT_EQ(plan().pipeline_lanes.front().stages.size(), 2U);
    }
    const auto result = base::load_document(in_folder("result.json"));
    ASSERT_TRUE(result.ok());
    base::Reader reader(*result);
    EXPECT_GT(reader.root().field("predicted_step_seconds").number(), 0);
    EXPECT_GT(reader.root().field("train_loss").number(), 0);
  }
}

// Foreign launchers: the same program under their variables.

std::vector<std::string> train(const std::string& job, const std::string& folder, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"train", job, "--run-dir", folder};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// A port of loopback that was free a moment ago.
std::string free_port() {
  auto listener = comm::listen_on("127.0.0.1", 0);
  EXPECT_TRUE(listener.ok());
  return std::to_string(comm::port_of(*listener));
}

TEST_F(Runs, RanksStartedByHandMeetAtTheStore) {
  const std::string store = "YOKE_STORE=127.0.0.1:" + free_port();
  std::vector<Process> ranks;
  for (int rank = 1; rank >= 0; --rank) {
    ranks.push_back(
        start(train(job_, folder(), {"--trace"}), {fmt::format("YOKE_RANK={}", rank), "YOKE_SIZE=2", store}));
  }
  for (auto& rank : ranks) {
    ASSERT_TRUE(rank.wait(60s)) << rank.output();
    EXPECT_EQ(rank.exit_code(), 0) << rank.output();
  }
  EXPECT_THAT(ranks[1].output(), HasSubstr("21 steps, 84 samples"));
  EXPECT_THAT(ranks[0].output(), Not(HasSubstr("21 steps"))) << "one rank tells";
  EXPECT_EQ(steps(), up_to(kSteps));
  EXPECT_THAT(read_text(in_folder("trace.json")), AllOf(HasSubstr("\"pid\":0"), HasSubstr("\"pid\":1")));
}

TEST_F(Runs, RanksOfDevicesThatThePlanLeavesOutGo) {
  const std::string three = temp_.write("three.yaml", "nodes:\n- {name: node0, devices: 3}\n");
  const auto start_three = [&](const std::vector<int>& used) {
    plan::Plan plan{.model = "fake", .gbs = 4, .lbs = 2};
    for (const int index : used) plan.data_lanes.push_back({.device = {"node0", index}});
    const std::string file = temp_.write("plan.json", plan::to_json(plan));
    const std::string store = fmt::format("YOKE_STORE=127.0.0.1:{}", free_port());
    std::vector<Process> ranks;
    for (const int rank : {0, 1, 2}) {
      ranks.push_back(start(train(job_, folder(), {"--cluster", three, "--set", "parallel.plan=" + file, "--trace"}),
                            {fmt::format("YOKE_RANK={}", rank), "YOKE_SIZE=3", store}));
    }
    for (auto& rank : ranks) EXPECT_TRUE(rank.wait(60s)) << rank.output();
    return ranks;
  };
  const auto left_out = start_three({0, 2});
  for (const auto& rank : left_out) EXPECT_EQ(rank.exit_code(), 0) << rank.output();
  EXPECT_THAT(left_out[1].output(), HasSubstr("the plan gives node0:1 nothing to do: rank 1 leaves"));
  EXPECT_THAT(left_out[0].output(), HasSubstr("21 steps, 84 samples"));
  EXPECT_EQ(steps(), up_to(kSteps));
  EXPECT_THAT(read_text(in_folder("trace.json")), AllOf(HasSubstr("node0:2"), Not(HasSubstr("node0:1"))));

  std::filesystem::remove_all(folder());
  for (const auto& rank : start_three({1, 2})) {
    EXPECT_EQ(rank.exit_code(), 2);
    EXPECT_THAT(rank.output(), HasSubstr("--cluster: the plan gives node0:0 nothing to do, but it is the device of "
                                         "rank 0"));
  }
}

TEST_F(Runs, WhatRankZeroRefusesEndsAllRanks) {
  const std::string port = free_port();
  temp_.write("run/mine", "x");
  std::vector<Process> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(start(train(job_, folder()), {fmt::format("RANK={}", rank), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                                                  "MASTER_PORT=" + port}));
  }
  for (auto& rank : ranks) {
    ASSERT_TRUE(rank.wait(60s)) << rank.output();
    EXPECT_EQ(rank.exit_code(), 2) << rank.output();
    EXPECT_THAT(rank.output(), HasSubstr("other things in it"));
  }
}

TEST_F(Runs, AStorePortThatIsTakenIsNamed) {
  const auto taken = comm::listen_on("127.0.0.1", 0);
  const Outcome outcome = run(train(job_, folder()), {"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1",
                                                      fmt::format("MASTER_PORT={}", comm::port_of(*taken))});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("MASTER_PORT: cannot listen on"));
}

TEST_F(Runs, UnderMpirun) {
  for (const auto& backend : comm::list_backends()) {
    if (backend.name == "mpi" && !backend.available) GTEST_SKIP() << "mpi is not in this build";
  }
  for (const char* backend : {"auto", "mpi"}) {
    std::filesystem::remove_all(folder());
    std::vector<std::string> command{"mpirun", "--oversubscribe", "-n", "2", yoke::testing::program("yoke_fake")};
    for (const auto& word : train(job_, folder(), {"--backend", backend, "--cluster", cluster_}))
      command.push_back(word);
    Process job(command, yoke::testing::mpirun_environment(temp_.path()));
    ASSERT_TRUE(job.wait(120s)) << job.output();
    EXPECT_EQ(job.exit_code(), 0) << job.output();
    EXPECT_THAT(job.output(), HasSubstr("21 steps, 84 samples"));
    EXPECT_EQ(steps(), up_to(kSteps)) << backend;
  }
}

TEST_F(Runs, UnderTorchrun) {
  // Debian 13's torch has a torchrun but not what its store needs.
  Process asked(
      {"/usr/bin/python3", "-c", "import torch.distributed.run; torch.distributed.TCPStore('127.0.0.1', 0, 1, True)"});
  ASSERT_TRUE(asked.wait(60s));
  if (asked.exit_code() != 0) GTEST_SKIP() << "no python3 with a torchrun that works: " << asked.output();
  const std::string port = free_port();
  // torch 1.13 under Python 3.11 knows no way to leave the output alone, so it is asked to copy it.
  std::vector<std::string> command{"/usr/bin/python3",
                                   "-m",
                                   "torch.distributed.run",
                                   "--nproc_per_node=2",
                                   "--master_port=" + port,
                                   "--redirects=1",
                                   "--tee=1",
                                   "--log_dir=" + temp_.file("torchrun"),
                                   "--no_python",
                                   yoke::testing::program("yoke_fake")};
  for (const auto& word : train(job_, folder())) command.push_back(word);
  Process job(command);
  ASSERT_TRUE(job.wait(120s)) << job.output();
  EXPECT_EQ(job.exit_code(), 0) << job.output();
  EXPECT_EQ(steps(), up_to(kSteps));
}

}  // namespace
}  // namespace yoke::cli
