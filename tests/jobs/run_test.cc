// `yoke run` as its users type it: the quickstart, timelines, Ctrl-C, and jobs that cannot be trained.
#include <thread>

#include "tests/jobs/whole_job.h"
#include "tests/support/paths.h"

namespace yoke::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Run : public WholeJob {
 protected:
  std::vector<std::string> command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{
        yoke::testing::program("yoke"), "run", job_, "--cluster", cluster_, "--run-dir", temp_.file("run")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  const std::string cluster_ = temp_.write("cluster.yaml", "nodes:\n- {name: node0, devices: 2}\n");
};

TEST_F(Run, TheQuickstartReachesItsAccuracy) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) GTEST_SKIP() << "needs dataset-fashion-mnist";
  const std::string examples = std::string(yoke::testing::kSourceDir) + "/examples/quickstart/";
  const std::string output = run({yoke::testing::program("yoke"), "run", examples + "job.yaml", "--cluster",
                                  examples + "cluster.yaml", "--run-dir", temp_.file("run")});
  EXPECT_THAT(output, AllOf(HasSubstr("test accuracy"), HasSubstr("samples/s"), HasSubstr("measured"),
                            HasSubstr("predicted"), HasSubstr("equal split"), HasSubstr("run folder")));
  const base::Document document = result();
  base::Reader reader(document);
  EXPECT_GE(reader.root().field("test_accuracy").number(), 0.88);
  EXPECT_EQ(reader.root().field("samples").integer(), 120000);
}

TEST_F(Run, ATimelineShowsEveryRank) {
  run(command({"--trace"}));
  const std::string trace = read_text(in_run("trace.json"));
  for (const int rank : {0, 1}) {
    for (const auto& [thread, span] :
         {std::pair{0, "forward "}, {0, "backward "}, {100, "all-reduce 0"}, {100, "update 0"}}) {
      const std::string event = fmt::format("\"pid\":{},\"tid\":{},\"name\":\"{}", rank, thread, span);
      EXPECT_TRUE(trace.find(event) != std::string::npos) << event;
    }
  }
}

TEST_F(Run, CtrlCSavesAndResumeGivesTheSameWeights) {
  run({yoke::testing::program("yoke"), "run", job_, "--run-dir", temp_.file("straight"), "--set", "epochs=200"});
  Process process(command({"--set", "epochs=200"}));
  const auto metrics = in_run("metrics.jsonl");
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!std::filesystem::exists(metrics) || std::filesystem::file_size(metrics) == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << process.output();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::kill(process.pid(), SIGINT);
  EXPECT_THAT(finish(process, 130), HasSubstr("--resume"));
  EXPECT_THAT(run(command({"--set", "epochs=200", "--resume"})), HasSubstr("goes on after step "));
  EXPECT_EQ(number("samples"), 64 * 200);
  EXPECT_EQ(weights(), weights("straight"));
}

TEST_F(Run, WhatCannotBeTrainedIsSaidWithItsKeyAndCode) {
  EXPECT_THAT(run(command({"--set", "data.name=imagenet", "--set", "data.path=/nowhere"}), 2),
              AllOf(HasSubstr("/nowhere"), HasSubstr("expected one with train/ and val/")));
  EXPECT_THAT(run(command({"--set", "model.classes=3"}), 2), AllOf(HasSubstr("model.classes"), HasSubstr("has 4")));
}

TEST_F(Run, ALossThatIsNotANumberEndsTheRunAndKeepsTheLastCheckpoint) {
  const std::string output = run(command({"--set", "optimizer.lr=1e18", "--set", "checkpoint.every_steps=1"}), 2);
  EXPECT_THAT(output, AllOf(HasSubstr("step "), HasSubstr("lr"), HasSubstr("not finite")));
}

TEST_F(Run, ALocalBatchThatDoesNotFitIsMadeSmaller) {
  // Weights, gradients and state of the model are about 2.5 MB, activations of a sample about 0.1 MB.
  const std::string small = temp_.write("small.yaml", "nodes:\n- {name: node0, memory: 5MB}\n");
  const std::string output = run({yoke::testing::program("yoke"), "run", job_, "--cluster", small, "--run-dir",
                                  temp_.file("run"), "--set", "model.name=small_cnn", "--set", "data.shape=[1,28,28]",
                                  "--set", "batch.global=64", "--set", "batch.local=64"});
  EXPECT_THAT(output, HasSubstr("does not fit"));
  EXPECT_EQ(number("samples"), 128);
}

}  // namespace
}  // namespace yoke::testing
