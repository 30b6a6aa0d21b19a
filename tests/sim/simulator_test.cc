#include "yoke/sim/simulator.h"

#include <gmock/gmock.h>

#include <optional>

#include "tests/sim/uniform.h"
#include "tests/support/files.h"

namespace yoke::sim {
namespace {

using yoke::testing::expect_input_error;

constexpr double kTight = 1e-9;

/// The seconds of every device add up.
void expect_whole(const SimReport& report) {
  for (const auto& device : report.devices) {
    EXPECT_NEAR(device.computing() + device.exposed_communication + device.exposed_update + device.bubble,
                report.seconds, kTight * report.seconds);
    EXPECT_GE(device.bubble, -kTight * report.seconds);
    EXPECT_GE(device.exposed_communication, -kTight * report.seconds);
  }
}

// (S-1)/(M+S-1), whatever forward and backward take.
TEST(Simulator, BubblesOfGpipeAndOneForwardOneBackward) {
  for (const std::string kind : {"gpipe", "1f1b-flush"}) {
    for (const int stages : {1, 2, 4, 7}) {
      for (const int workers : {1, 4, 8, 32}) {
        const auto schedule =
            schedule_of(pipeline_plan(kind, workers, std::vector<int>(static_cast<std::size_t>(stages), 1)));
        const SimReport report = run(schedule, uniform_costs(schedule, 1, 2));
        EXPECT_NEAR(report.seconds, 3.0 * (workers + stages - 1), kTight) << kind << stages << workers;
        EXPECT_NEAR(report.bubble_share(), (stages - 1.0) / (workers + stages - 1), kTight);
        EXPECT_NEAR(report.computing_share(), 1 - report.bubble_share(), kTight);
        expect_whole(report);
      }
    }
  }
}

TEST(Simulator, AStraightPipelineIsAsFastAsItsSlowestStage) {
  const auto schedule = schedule_of(pipeline_plan("1f1b-stash", 50, {1, 1, 1}), {.steps = 10});
  Costs costs = uniform_costs(schedule, 1, 2);
  costs.programs[1].forward = 1.5;
  costs.programs[1].backward = 3.5;
  const SimReport report = run(schedule, costs);
  EXPECT_NEAR(report.steady_step_seconds() / 50, 5.0, 1e-6);
  expect_whole(report);
}

TEST(Simulator, ReplicasShareTheWorkersOfAStage) {
  const auto schedule = schedule_of(pipeline_plan("1f1b-stash", 60, {3, 2}), {.steps = 10});
  Costs costs = uniform_costs(schedule, 2, 4);  // 6 s on three devices: one worker each 2 s
  for (int d = 3; d < 5; ++d) {
    costs.programs[static_cast<std::size_t>(d)].forward = 1;
    costs.programs[static_cast<std::size_t>(d)].backward = 2;
  }
  EXPECT_NEAR(run(schedule, costs).steady_step_seconds() / 60, 2.0, 0.01);
}

TEST(Simulator, RingAllReduce) {
  const double bytes = 1e6, bandwidth = 1e7, latency = 1e-4;
  for (const int devices : {2, 3, 8}) {
    const auto schedule = schedule_of(data_plan(devices, 1, 0));
    Costs costs = uniform_costs(schedule, 1, 2);
    costs.bucket_bytes = {{bytes}};
    const SimReport report =
        run(schedule, costs, network_of(schedule, nodes(1, devices, bandwidth, 1), {.intra_latency = latency}));
    const double all_reduce = 2.0 * (devices - 1) / devices * bytes / bandwidth + 2 * (devices - 1) * latency;
    EXPECT_NEAR(report.seconds, 3 + all_reduce, kTight);
    EXPECT_NEAR(report.exposed_communication_share(), all_reduce / report.seconds, kTight);
    expect_whole(report);
  }
}

TEST(Simulator, AllReducesAreSlowerThanTheirMessagesIfTheyWereMeasuredSo) {
  const auto schedule = schedule_of(data_plan(2, 1, 0));
  Costs costs = uniform_costs(schedule, 1, 2);
  costs.bucket_bytes = {{8}};
  const NetworkOptions options{.intra_reduce_stretch = 3};
  EXPECT_NEAR(run(schedule, costs, network_of(schedule, nodes(1, 2, 8, 1), options)).seconds, 3 + 3 * 1, kTight);
}

TEST(Simulator, ALoneDeviceReducesForNothing) {
  const auto schedule = schedule_of(data_plan(1, 1, 0));
  Costs costs = uniform_costs(schedule, 1, 2);
  costs.bucket_bytes = {{1e9}};
  EXPECT_NEAR(run(schedule, costs, network_of(schedule, nodes(1, 1, 1, 1))).seconds, 3, kTight);
}

TEST(Simulator, OverlapHidesBucketsBehindTheBackwardPass) {
  // Buckets of 1 s each, full at 1/4, 1/2, 1 of a backward pass of 4 s.
  plan::Plan plan = data_plan(2, 1, 0);
  const auto network_for = [](const plan::Schedule& schedule) { return network_of(schedule, nodes(1, 2, 100, 1)); };
  const auto priced = [](const plan::Schedule& schedule) {
    Costs costs = uniform_costs(schedule, 1, 4);
    costs.bucket_bytes = {{100, 100, 100}};  // 2 (n-1)/n = 1
    for (auto& program : costs.programs) program.buckets = {{.ready = 0.25}, {.ready = 0.5}, {.ready = 1}};
    return costs;
  };
  const auto overlap = schedule_of(plan, {.buckets = {3}});
  const SimReport hidden = run(overlap, priced(overlap), network_for(overlap));
  EXPECT_NEAR(hidden.seconds, 1 + 4 + 1, kTight);
  expect_whole(hidden);
  plan.sync = plan::Sync::kSequential;
  const auto sequential = schedule_of(plan, {.buckets = {3}});
  EXPECT_NEAR(run(sequential, priced(sequential), network_for(sequential)).seconds, 1 + 4 + 3, kTight);
}

TEST(Simulator, UpdatesComeAfterTheirReduce) {
  const auto schedule = schedule_of(data_plan(2, 1, 0), {.steps = 3, .buckets = {2}});
  Costs costs = uniform_costs(schedule, 1, 4);
  costs.bucket_bytes = {{100, 100}};
  for (auto& program : costs.programs) {
    program.buckets = {{.ready = 0.5, .update_seconds = 0.5}, {.ready = 1, .update_seconds = 0.25}};
  }
  const SimReport report = run(schedule, costs, network_of(schedule, nodes(1, 2, 100, 1)));
  // Each step: 5 s, the second bucket 1 s, its update 0.25 s.
  EXPECT_NEAR(report.seconds, 3 * 6.25, kTight);
  EXPECT_NEAR(report.steady_step_seconds(), 6.25, kTight);
  EXPECT_NEAR(report.devices[0].exposed_update, 3 * 0.25, kTight);
  expect_whole(report);
}

TEST(Simulator, MessagesTakeTheirTimeBesideThePasses) {
  // One worker through two stages: forward, message, forward, backward, message, backward.
  const auto schedule = schedule_of(pipeline_plan("gpipe", 1, {1, 1}, false));
  Costs costs = uniform_costs(schedule, 1, 2);
  costs.programs[0].activations.bytes = 50;
  costs.programs[1].gradients.bytes = 50;
  const auto network = network_of(schedule, nodes(2, 1, 1, 100), {.inter_latency = 0.25});
  const SimReport report = run(schedule, costs, network);
  EXPECT_NEAR(report.seconds, 6 + 2 * (0.5 + 0.25), kTight);
  // The second stage waits 1 s for the first, which is no communication, and 0.75 s for the message.
  EXPECT_NEAR(report.devices[1].exposed_communication, 0.75, kTight);
  EXPECT_NEAR(report.devices[1].bubble, 1 + 0.75 + 2, kTight);
  expect_whole(report);
}

TEST(Simulator, WhatAProcessorMovesItsPassesWaitFor) {
  const auto schedule = schedule_of(data_plan(2, 1, 0));
  Costs costs = uniform_costs(schedule, 1, 4);
  costs.bucket_bytes = {{8}};
  const auto seconds = [&](double ready, const std::string& type) {
    for (auto& program : costs.programs) program.buckets = {{.ready = ready}};
    const SimReport report =
        run(schedule, costs, network_of(schedule, nodes(1, 2, 8, 1, type), {.intra_processor = 0.05}));
    expect_whole(report);
    return report.seconds;
  };
  // The bucket is full after a quarter of the backward pass. Of two members each sends and receives all of it.
  EXPECT_NEAR(seconds(0.25, "cpu"), 1 + 4 + 2 * 8 * 0.05, kTight);
  EXPECT_NEAR(seconds(0.25, "slow-cpu"), 1 + 4 + 2 * 8 * 0.05, kTight);
  EXPECT_NEAR(seconds(0.25, "gpu"), 1 + 4, kTight);
  // Nothing computes beside it: it takes its second on the network only.
  EXPECT_NEAR(seconds(1, "cpu"), 1 + 4 + 1, kTight);
}

TEST(Simulator, UpdatesBesidePassesTakeProcessorsAway) {
  const auto schedule = schedule_of(data_plan(2, 1, 0));
  Costs costs = uniform_costs(schedule, 1, 4);
  for (auto& program : costs.programs) program.buckets = {{.ready = 0.5, .update_seconds = 1}};
  EXPECT_NEAR(run(schedule, costs, network_of(schedule, nodes(1, 2, 8, 1, "cpu"))).seconds, 1 + 4 + 1, kTight);
  EXPECT_NEAR(run(schedule, costs, network_of(schedule, nodes(1, 2, 8, 1))).seconds, 1 + 4, kTight);
}

TEST(Simulator, AWarmUpOfOneMoreHidesTheMessages) {
  const auto pace = [](std::optional<int> warmup) {
    plan::Plan plan = pipeline_plan("1f1b-stash", 100, {1, 1}, false);
    plan.pipeline_lanes[0].stages[0].warmup = warmup;
    const auto schedule = schedule_of(plan, {.steps = 4});
    Costs costs = uniform_costs(schedule, 1, 2);
    costs.programs[0].activations.bytes = 50;
    costs.programs[1].gradients.bytes = 50;
    return run(schedule, costs, network_of(schedule, nodes(2, 1, 1, 100))).steady_step_seconds() / 100;
  };
  // Two in flight: a worker is two passes and two messages of 0.5 s on its way, 7 s for two.
  EXPECT_NEAR(pace({}), 3.5, 0.01);
  EXPECT_NEAR(pace(2), 3.0, 0.01);
}

TEST(Simulator, PipelinesThatShareACardAreSlower) {
  // Two pipelines from n0 to n1, each with messages of 1 s alone and of 2 s when both send at once.
  plan::Plan plan = pipeline_plan("gpipe", 1, {1, 1}, false);
  plan::PipelineLane second = plan.pipeline_lanes[0];
  second.stages[0].devices = {{"n0", 1}};
  second.stages[1].devices = {{"n1", 1}};
  plan.pipeline_lanes.push_back(second);
  plan.gbs = 2;
  const auto schedule = schedule_of(plan);
  Costs costs = uniform_costs(schedule, 1, 2);
  for (const std::size_t d : {0, 2}) costs.programs[d].activations.bytes = 100;
  for (const std::size_t d : {1, 3}) costs.programs[d].gradients.bytes = 100;
  EXPECT_NEAR(run(schedule, costs, network_of(schedule, nodes(2, 2, 1, 100))).seconds, 6 + 2 * 2, kTight);
}

TEST(Simulator, RecomputeCostsAForwardPass) {
  plan::Plan plan = pipeline_plan("gpipe", 4, {1, 1});
  plan.pipeline_lanes[0].recompute = true;
  const auto schedule = schedule_of(plan);
  const SimReport report = run(schedule, uniform_costs(schedule, 1, 2));
  EXPECT_NEAR(report.seconds, (1 + 1 + 2) * 5.0, kTight);
  EXPECT_NEAR(report.devices[0].recompute, 4, kTight);
}

TEST(Simulator, MemoryIsWhatIsInFlight) {
  const auto peak = [](const std::string& kind, int workers, bool recompute) {
    plan::Plan plan = pipeline_plan(kind, workers, {1, 1, 1});
    plan.pipeline_lanes[0].recompute = recompute;
    const auto schedule = schedule_of(plan, {.steps = 2});
    Costs costs = uniform_costs(schedule, 1, 2);
    for (auto& program : costs.programs) {
      program.worker_bytes = 100;
      program.weight_bytes = 1000;
      program.fixed_bytes = 5000;
    }
    return run(schedule, costs).devices;
  };
  EXPECT_DOUBLE_EQ(peak("gpipe", 8, false)[0].peak_bytes, 6000 + 800);
  EXPECT_DOUBLE_EQ(peak("1f1b-flush", 8, false)[0].peak_bytes, 6000 + 300);
  EXPECT_DOUBLE_EQ(peak("1f1b-flush", 8, false)[2].peak_bytes, 6000 + 100);
  EXPECT_DOUBLE_EQ(peak("gpipe", 8, true)[0].peak_bytes, 6000 + 100);
  // Three versions at the first stage, and three workers.
  EXPECT_DOUBLE_EQ(peak("1f1b-stash", 8, false)[0].peak_bytes, 8000 + 300);
  EXPECT_DOUBLE_EQ(peak("1f1b-stash", 8, false)[2].peak_bytes, 6000 + 100);
  EXPECT_DOUBLE_EQ(peak("2bw", 8, false)[0].peak_bytes, 7000 + 300);
}

TEST(Simulator, MemoryOverTimeEndsWhereItBegan) {
  const auto schedule = schedule_of(pipeline_plan("1f1b-stash", 6, {2, 1}), {.steps = 3});
  Costs costs = uniform_costs(schedule, 1, 2);
  for (std::size_t d = 0; d < 3; ++d) {
    costs.programs[d].worker_bytes = 100;
    costs.programs[d].input_bytes = d < 2 ? 0 : 30;
    costs.programs[d].weight_bytes = 1000;
    (d < 2 ? costs.programs[d].activations : costs.programs[d].gradients).bytes = 30;
  }
  const SimReport report = run(schedule, costs, {.record = true});
  for (const auto& device : report.devices) {
    ASSERT_FALSE(device.memory.empty());
    EXPECT_NEAR(device.memory.back().bytes, 1000, 1e-6);
    double highest = 0;
    for (const auto& point : device.memory) highest = std::max(highest, point.bytes);
    EXPECT_LE(highest, device.peak_bytes);
  }
}

TEST(Simulator, RaggedRoundsTakeTheirPart) {
  const auto schedule = schedule_of(data_plan(1, 4, 0), {.last_step_workers = 1});
  Costs costs = uniform_costs(schedule, 1, 3);
  costs.programs[0].round_workers = 4;
  EXPECT_NEAR(run(schedule, costs).seconds, 1, kTight);
}

TEST(Simulator, JitterIsTheSameForTheSameSeed) {
  const auto schedule = schedule_of(pipeline_plan("1f1b-flush", 16, {2, 2}), {.steps = 3});
  const Costs costs = uniform_costs(schedule, 1, 2);
  const auto seconds = [&](double jitter, std::uint64_t seed) {
    return run(schedule, costs, {.jitter = jitter, .seed = seed}).seconds;
  };
  EXPECT_EQ(seconds(0.2, 7), seconds(0.2, 7));
  EXPECT_NE(seconds(0.2, 7), seconds(0.2, 8));
  EXPECT_EQ(seconds(0, 7), seconds(0, 8));
  // Waiting for the slowest makes it longer, by less than the jitter.
  EXPECT_GT(seconds(0.2, 7), seconds(0, 7));
  EXPECT_LT(seconds(0.2, 7), 1.2 * seconds(0, 7));
}

TEST(Simulator, EveryScheduleOfTheCheckerRuns) {
  for (const std::string kind : {"gpipe", "1f1b-flush", "1f1b-stash", "2bw"}) {
    for (const auto& replicas : std::vector<std::vector<int>>{{3, 2}, {2, 3}, {15, 1}, {2, 1, 1}, {9, 5, 1, 1}}) {
      const auto schedule = schedule_of(pipeline_plan(kind, 37, replicas), {.steps = 3, .last_step_workers = 5});
      const SimReport report = run(schedule, uniform_costs(schedule, 1, 2), {.jitter = 0.1});
      expect_whole(report);
      EXPECT_GE(report.seconds, 3.0 * 37 * 2 / replicas[0] * 0.9);
    }
  }
}

TEST(Simulator, RefusesOtherCosts) {
  const auto schedule = schedule_of(data_plan(2, 1, 0));
  Costs costs = uniform_costs(schedule, 1, 2);
  expect_input_error(simulate(schedule, costs, Network::ideal(3)), "a network of 3, expected those of the 2");
  expect_input_error(simulate(schedule, costs, Network::ideal(2), {.jitter = 1}), "jitter: found 1");
  costs.programs[1].buckets.clear();
  expect_input_error(simulate(schedule, costs, Network::ideal(2)), "every bucket");
  costs.programs.pop_back();
  expect_input_error(simulate(schedule, costs, Network::ideal(2)), "found costs of 1 devices");
}

}  // namespace
}  // namespace yoke::sim
