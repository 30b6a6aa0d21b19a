#include "yoke/plan/schedule.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/plan/schedule_plans.h"
#include "tests/plan/symbolic_run.h"
#include "tests/support/files.h"

namespace yoke::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using yoke::testing::expect_input_error;
using Kind = ScheduleOpKind;

Schedule made(const Plan& plan, const ScheduleRequest& request = {}) {
  auto schedule = make_schedule(plan, request);
  EXPECT_TRUE(schedule.ok()) << schedule.error().to_string();
  return schedule.ok() ? *schedule : Schedule{};
}

std::vector<ProgramFacts> checked(const Schedule& schedule) {
  auto facts = check(schedule);
  EXPECT_TRUE(facts.ok()) << facts.error().to_string();
  return facts.ok() ? *facts : std::vector<ProgramFacts>(schedule.programs.size());
}

/// `F0 F1 B0 ...`: passes as letters, the rest left out.
std::string passes(const DeviceProgram& program) {
  std::string text;
  for (const auto& op : program.ops) {
    if (op.kind == Kind::kForward) text += " F" + std::to_string(op.worker);
    if (op.kind == Kind::kBackward) text += " B" + std::to_string(op.worker);
    if (op.kind == Kind::kUpdate && op.bucket == 0) text += " U" + std::to_string(op.version);
  }
  return text.empty() ? text : text.substr(1);
}

std::vector<std::string> described(const Schedule& schedule, std::size_t program) {
  std::vector<std::string> lines;
  for (const auto& op : schedule.programs[program].ops) lines.push_back(describe(op, schedule));
  return lines;
}

std::vector<int> warmups(const std::vector<int>& replicas) {
  const PipelineLane lane = pipeline("1f1b-stash", 1, replicas);
  std::vector<int> result;
  for (int s = 0; s < static_cast<int>(replicas.size()); ++s) result.push_back(warmup_of(lane, s));
  return result;
}

TEST(Schedule, WarmUpsArePipedreams) {
  EXPECT_THAT(warmups({15, 1}), ElementsAre(1, 0));
  EXPECT_THAT(warmups({2, 1, 1}), ElementsAre(1, 1, 0));
  EXPECT_THAT(warmups({1, 1, 1, 1}), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(warmups({9, 5, 1, 1}), ElementsAre(1, 1, 1, 0));
  PipelineLane lane = pipeline("1f1b-stash", 1, {1, 1});
  lane.stages[0].warmup = 5;
  EXPECT_EQ(warmup_of(lane, 0), 5);
}

TEST(Schedule, LearningRatesFollowPipedreamsReplicaRatio) {
  EXPECT_EQ(rate_factor_of(pipeline("1f1b-stash", 1, {4, 2, 1}), 1), 0.5);
  EXPECT_EQ(rate_factor_of(pipeline("1f1b-stash", 1, {2, 3}), 1), 1.5);
  EXPECT_EQ(rate_factor_of(pipeline("1f1b-flush", 1, {4, 2}), 1), 1);
}

TEST(Schedule, NamesReadBack) {
  for (const auto kind :
       {ScheduleKind::kData, ScheduleKind::kGpipe, ScheduleKind::kFlush, ScheduleKind::kStash, ScheduleKind::kTwoBw}) {
    EXPECT_EQ(*parse_schedule_kind(to_string(kind)), kind);
  }
  expect_input_error(parse_schedule_kind("1f1b-flsh", {.field = "schedule"}), "did you mean `1f1b-flush`?");
  EXPECT_TRUE(keeps_the_math(ScheduleKind::kGpipe));
  EXPECT_FALSE(keeps_the_math(ScheduleKind::kTwoBw));
}

TEST(Schedule, GpipeIsAllForwardThenAllBackward) {
  const Schedule schedule = made(plan_of({pipeline("gpipe", 3, {1, 1})}));
  EXPECT_EQ(passes(schedule.programs[0]), "F0 F1 F2 B0 B1 B2 U1");
  EXPECT_EQ(passes(schedule.programs[1]), "F0 F1 F2 B0 B1 B2 U1");
  EXPECT_EQ(checked(schedule)[0].peak_in_flight, 3);
}

TEST(Schedule, FlushIsOneForwardOneBackward) {
  const Schedule schedule = made(plan_of({pipeline("1f1b-flush", 5, {1, 1, 1})}));
  EXPECT_EQ(passes(schedule.programs[0]), "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4 U1");
  EXPECT_EQ(passes(schedule.programs[1]), "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4 U1");
  EXPECT_EQ(passes(schedule.programs[2]), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 U1");
  EXPECT_EQ(checked(schedule)[0].peak_in_flight, 3);
  EXPECT_EQ(checked(schedule)[0].peak_versions, 1);
}

TEST(Schedule, ListsOfAStageInFull) {
  Plan plan = plan_of({pipeline("1f1b-flush", 2, {1, 2, 1})});
  plan.pipeline_lanes[0].recompute = true;
  const Schedule schedule = made(plan, {.buckets = {1, 2, 1}});
  EXPECT_THAT(
      described(schedule, 1),
      ElementsAre("receive of the activations of worker 0 from p:0", "forward of worker 0 with version 0",
                  "send of the activations of worker 0 to p:3", "receive of the gradients of worker 0 from p:3",
                  "recompute of worker 0 with version 0", "backward of worker 0 with version 0",
                  "send of the gradients of worker 0 to p:0", "reduce of bucket 0 of segment 1 for version 1",
                  "update of bucket 0 of segment 1 to version 1", "reduce of bucket 1 of segment 1 for version 1",
                  "update of bucket 1 of segment 1 to version 1"));
  EXPECT_THAT(described(schedule, 3)[0], "receive of the activations of worker 0 from p:1");
  EXPECT_THAT(described(schedule, 0)[0], "load of worker 0");
}

TEST(Schedule, DataLanesTakeTheirWorkersInRounds) {
  const Schedule schedule = made(plan_of({}, {data_lane(0, 2, 1), data_lane(1, 3, 0)}), {.buckets = {2}});
  EXPECT_EQ(schedule.workers, 7);
  EXPECT_THAT(
      described(schedule, 0),
      ElementsAre("load of workers 0 to 1", "forward of workers 0 to 1 with version 0",
                  "backward of workers 0 to 1 with version 0", "load of workers 2 to 3",
                  "forward of workers 2 to 3 with version 0", "backward of workers 2 to 3 with version 0",
                  "reduce of bucket 0 of segment 0 for version 1", "update of bucket 0 of segment 0 to version 1",
                  "reduce of bucket 1 of segment 0 for version 1", "update of bucket 1 of segment 0 to version 1"));
  EXPECT_EQ(checked(schedule)[1].peak_in_flight, 3);
}

TEST(Schedule, ARaggedStepLeavesOutTheHighestNumbers) {
  const Plan plan = plan_of({pipeline("1f1b-flush", 4, {3, 1})}, {data_lane(0, 2, 1)});
  const Schedule two = made(plan, {.last_step_workers = 5});
  EXPECT_EQ(passes(two.programs[0]), "F0 B0 F2 B2 U1 U1");
  EXPECT_EQ(passes(two.programs[1]), "F4 B4 U1");
  EXPECT_EQ(passes(two.programs[2]), "U1");  // it has none and updates all the same
  EXPECT_EQ(passes(two.programs[4]), "F4 B4 U1");
  checked(two);
  const Schedule one = made(plan, {.last_step_workers = 1});
  EXPECT_EQ(passes(one.programs[0]), "F0 B0 U1 U1");
  EXPECT_EQ(passes(one.programs[4]), "U1");
  checked(one);
}

TEST(Schedule, SequentialUpdatesComeAfterAllReduces) {
  const Plan plan = plan_of({}, {data_lane(0, 1, 0), data_lane(1, 1, 0)}, Sync::kSequential);
  const auto lines = described(made(plan, {.buckets = {2}}), 0);
  EXPECT_THAT(std::vector(lines.begin() + 3, lines.end()),
              ElementsAre(HasSubstr("reduce of bucket 0"), HasSubstr("reduce of bucket 1"),
                          HasSubstr("update of bucket 0"), HasSubstr("update of bucket 1")));
}

TEST(Schedule, ClippingWaitsForTheNormOfAll) {
  const Plan plan = plan_of({pipeline("gpipe", 2, {1, 1})});
  const auto lines = described(made(plan, {.buckets = {2, 1}, .clip_norm = true}), 0);
  EXPECT_THAT(std::vector(lines.end() - 5, lines.end()),
              ElementsAre(HasSubstr("reduce of bucket 0"), HasSubstr("reduce of bucket 1"), HasSubstr("norm of"),
                          HasSubstr("update of bucket 0"), HasSubstr("update of bucket 1")));
}

TEST(Schedule, EvaluationIsForwardOnly) {
  const Schedule schedule =
      made(plan_of({pipeline("1f1b-stash", 3, {2, 1})}), {.last_step_workers = 2, .forward_only = true});
  EXPECT_EQ(passes(schedule.programs[0]), "F0");
  EXPECT_EQ(passes(schedule.programs[2]), "F0 F1");
  checked(schedule);
}

TEST(Schedule, SegmentsAreWhatTheSameDevicesHold) {
  PipelineLane first = pipeline("gpipe", 2, {1, 2}, "a", 3);
  PipelineLane second = pipeline("1f1b-flush", 2, {1, 1, 1}, "b", 2);
  const auto segments = *segments_of(plan_of({first, second}, {data_lane(0, 1, 0)}));
  // Cut at 3 by the first and at 2 and 4 by the second lane. Program 0 is the data lane.
  ASSERT_EQ(segments.size(), 4U);
  EXPECT_THAT(segments[0].layers, ElementsAre("l0", "l1"));
  EXPECT_THAT(segments[0].holders, ElementsAre(0, 1, 4));
  EXPECT_THAT(segments[1].layers, ElementsAre("l2"));
  EXPECT_THAT(segments[1].holders, ElementsAre(0, 1, 5));
  EXPECT_THAT(segments[2].layers, ElementsAre("l3"));
  EXPECT_THAT(segments[2].holders, ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(segments[3].layers, ElementsAre("l4", "l5"));
  EXPECT_THAT(segments[3].holders, ElementsAre(0, 2, 3, 6));
  const Schedule schedule = made(plan_of({first, second}, {data_lane(0, 1, 0)}));
  EXPECT_THAT(schedule.programs[5].segments, ElementsAre(1, 2));
  second.stages[2].layers = {"l4", "other"};
  expect_input_error(segments_of(plan_of({first, second})), "the layer `other` is not in the pipeline lane 0");
  second.stages[2].layers = {"l4"};
  expect_input_error(segments_of(plan_of({first, second})), "the layer `l5` of the pipeline lane 0 is missing");
}

TEST(Schedule, AWholeModelIsOneSegment) {
  const auto segments = *segments_of(plan_of({}, {data_lane(0, 1, 0), data_lane(1, 1, 0)}));
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_TRUE(segments[0].layers.empty());
  EXPECT_THAT(segments[0].holders, ElementsAre(0, 1));
}

// PipeDream's runtime, as measured on its own code: W + 1 versions; worker i of a replica runs forward and backward
// with the weights of i - W updates, and goes into update i + 1.
TEST(Stash, UsesTheVersionsOfPipedreamsRuntime) {
  for (const std::vector<int>& replicas : std::vector<std::vector<int>>{{1, 1, 1, 1}, {2, 1, 1}, {15, 1}, {3, 2}}) {
    const Plan plan = plan_of({pipeline("1f1b-stash", 12, replicas)});
    const Schedule schedule = made(plan, {.steps = 5});
    const auto facts = checked(schedule);
    for (std::size_t p = 0; p < schedule.programs.size(); ++p) {
      const auto& program = schedule.programs[p];
      const int warmup = warmup_of(plan.pipeline_lanes[0], program.stage);
      EXPECT_EQ(facts[p].peak_versions, warmup + 1);
      EXPECT_EQ(facts[p].peak_in_flight, warmup + 1);
      EXPECT_EQ(facts[p].lag, warmup);
      for (const auto& op : program.ops) {
        if (op.kind == Kind::kForward || op.kind == Kind::kBackward) {
          EXPECT_EQ(op.version, std::max(0, op.worker / program.replicas - warmup));
        }
      }
    }
  }
}

TEST(Stash, KeepsAVersionAsLongAsItIsNeeded) {
  const Schedule schedule = made(plan_of({pipeline("1f1b-stash", 4, {1, 1})}));
  EXPECT_THAT(
      described(schedule, 0),
      ElementsAre(
          "load of worker 0", "forward of worker 0 with version 0", "send of the activations of worker 0 to p:1",
          "load of worker 1", "forward of worker 1 with version 0", "send of the activations of worker 1 to p:1",
          "stash of version 0", "receive of the gradients of worker 0 from p:1", "backward of worker 0 with version 0",
          "reduce of bucket 0 of segment 0 for version 1", "update of bucket 0 of segment 0 to version 1",
          "load of worker 2", "forward of worker 2 with version 1", "send of the activations of worker 2 to p:1",
          "stash of version 1", "receive of the gradients of worker 1 from p:1", "backward of worker 1 with version 0",
          "drop of version 0", "reduce of bucket 0 of segment 0 for version 2",
          "update of bucket 0 of segment 0 to version 2", "load of worker 3", "forward of worker 3 with version 2",
          "send of the activations of worker 3 to p:1", "stash of version 2",
          "receive of the gradients of worker 2 from p:1", "backward of worker 2 with version 1", "drop of version 1",
          "reduce of bucket 0 of segment 0 for version 3", "update of bucket 0 of segment 0 to version 3",
          "receive of the gradients of worker 3 from p:1", "backward of worker 3 with version 2", "drop of version 2",
          "reduce of bucket 0 of segment 0 for version 4", "update of bucket 0 of segment 0 to version 4"));
  EXPECT_EQ(passes(schedule.programs[1]), "F0 B0 U1 F1 B1 U2 F2 B2 U3 F3 B3 U4");
}

TEST(Stash, VerticalSyncUsesTheVersionOfTheEntryEverywhere) {
  PipelineLane lane = pipeline("1f1b-stash", 6, {1, 1, 1});
  lane.vertical_sync = true;
  const Schedule schedule = made(plan_of({lane}), {.steps = 3});
  const auto facts = checked(schedule);
  for (const auto& program : schedule.programs) {
    for (const auto& op : program.ops) {
      if (op.kind == Kind::kForward) {
        EXPECT_EQ(op.version, std::max(0, op.worker - 2));
      }
    }
  }
  // The last stage, which needs one version without, now keeps those of the workers on their way to it.
  EXPECT_EQ(facts[2].peak_versions, 3);
}

TEST(Stash, VerticalSyncCountsWorkersWhereReplicasDiffer) {
  PipelineLane lane = pipeline("1f1b-stash", 12, {3, 2});
  lane.vertical_sync = true;
  const Schedule schedule = made(plan_of({lane}), {.steps = 2});
  checked(schedule);
  std::map<int, int> entry;
  for (int r = 0; r < 3; ++r) {
    for (const auto& op : schedule.programs[static_cast<std::size_t>(r)].ops) {
      if (op.kind == Kind::kForward) entry[op.worker] = op.version;
    }
  }
  for (int r = 3; r < 5; ++r) {
    for (const auto& op : schedule.programs[static_cast<std::size_t>(r)].ops) {
      if (op.kind != Kind::kForward) continue;
      // The newest version of stage 1 all of whose workers are in the weights that the worker had at its entry.
      EXPECT_LE(op.version * 2, entry[op.worker] * 3);
      EXPECT_GT((op.version + 1) * 2, entry[op.worker] * 3);
    }
  }
}

TEST(TwoBw, IsOneStepBehindWithTwoVersions) {
  const Plan plan = plan_of({pipeline("2bw", 6, {2, 1, 1})});
  const Schedule schedule = made(plan, {.steps = 5, .last_step_workers = 1});
  const auto facts = checked(schedule);
  for (std::size_t p = 0; p < facts.size(); ++p) {
    EXPECT_EQ(facts[p].peak_versions, 2);
    EXPECT_EQ(facts[p].lag, 1);
    for (const auto& op : schedule.programs[p].ops) {
      if (op.kind == Kind::kForward || op.kind == Kind::kBackward) {
        EXPECT_EQ(op.version, std::max(0, op.worker / 6 - 1));
      }
    }
  }
  // Not drained: forward passes of the second step come before backward passes of the first.
  EXPECT_THAT(passes(schedule.programs[2]), HasSubstr("F6 B5"));
}

TEST(TwoBw, NeedsAsManyWorkersAStepAsAreInFlight) {
  const Plan plan = plan_of({pipeline("2bw", 3, {1, 1, 1, 1})});
  expect_input_error(make_schedule(plan, {.steps = 2}), "expected at least 4 workers a step");
  EXPECT_TRUE(make_schedule(plan, {.steps = 1}).ok());
}

TEST(Schedule, RefusesWhatDoesNotGoTogether) {
  expect_input_error(make_schedule(plan_of({pipeline("1f1b-stash", 2, {1, 1})}, {data_lane(0, 1, 0)})),
                     "pipeline_lanes[0].schedule: found 1f1b-stash beside other lanes");
  expect_input_error(make_schedule(plan_of({pipeline("2bw", 2, {1, 1}), pipeline("2bw", 2, {1, 1}, "q")})),
                     "beside other lanes");
  expect_input_error(make_schedule(plan_of({pipeline("1f1b", 2, {1, 1})})), "pipeline_lanes[0].schedule: found `1f1b`");
  expect_input_error(make_schedule(plan_of({pipeline("data", 2, {1, 1})})), "expected the schedule of a pipeline");
  expect_input_error(make_schedule(plan_of({pipeline("1f1b-stash", 2, {1, 1})}), {.clip_norm = true}),
                     "clipping by norm needs stages that update together");
  Plan plan = plan_of({pipeline("gpipe", 2, {1, 1})});
  plan.pipeline_lanes[0].stages[1].warmup = 1;
  expect_input_error(make_schedule(plan), "pipeline_lanes[0].stages[1].warmup: found a warm-up, but gpipe");
  plan = plan_of({pipeline("gpipe", 2, {1, 1})});
  expect_input_error(make_schedule(plan, {.steps = 0}), "steps: found 0");
  expect_input_error(make_schedule(plan, {.steps = 2'000'000'000}), "more than can be numbered");
  expect_input_error(make_schedule(plan, {.last_step_workers = 3}), "last_step_workers: found 3");
  expect_input_error(make_schedule(plan, {.buckets = {1}}), "one for each of the 2 segments");
  expect_input_error(make_schedule(plan, {.buckets = {1, -1}}), "buckets: found -1");
}

TEST(Schedule, AWarmUpThatStandsStillIsRefused) {
  PipelineLane lane = pipeline("1f1b-flush", 6, {1, 1, 1});
  lane.stages[0].warmup = 1;
  lane.stages[1].warmup = 2;
  expect_input_error(make_schedule(plan_of({lane})),
                     "pipeline_lanes[0].stages[0].warmup: the pipeline would stand still: stage 0 lets 2 workers in "
                     "before its first backward pass, but stage 1 wants 3 before its own; found a warm-up of 1, "
                     "expected at least 2");
  lane.stages[0].warmup = 2;
  EXPECT_TRUE(make_schedule(plan_of({lane})).ok());
  // With few workers there is nothing left to wait for.
  lane.stages[0].warmup = 1;
  lane.workers = 2;
  EXPECT_TRUE(make_schedule(plan_of({lane})).ok());
}

/// A drained pipeline stands still exactly where a stage lets in no more than the next one wants before it gives back.
TEST(Schedule, StandstillIsWhatTheRuleSays) {
  base::Stream random({.seed = 11});
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    PipelineLane lane = random_pipeline(random, "1f1b-flush", 6, 0);
    const int stages = static_cast<int>(lane.stages.size());
    for (auto& stage : lane.stages) {
      if (random.below(2) == 0) stage.warmup = static_cast<int>(random.below(5));
    }
    lane.workers = 60;  // enough for every warm-up
    bool stands = false;
    for (int s = 0; s + 1 < stages; ++s) {
      const auto in = [&](int stage) {
        return static_cast<int>(lane.stages[static_cast<std::size_t>(stage)].devices.size());
      };
      stands = stands || (warmup_of(lane, s) + 1) * in(s) <= warmup_of(lane, s + 1) * in(s + 1);
    }
    const auto schedule = make_schedule(plan_of({lane}));
    EXPECT_EQ(schedule.ok(), !stands);
    if (schedule.ok()) {
      checked(*schedule);
    } else {
      ++refused;
      expect_input_error(schedule, "the pipeline would stand still");
    }
  }
  EXPECT_GT(refused, 20);
  EXPECT_LT(refused, 380);
}

TEST(Schedule, EveryRandomScheduleHolds) {
  base::Stream random({.seed = 5});
  for (int round = 0; round < 1500; ++round) {
    const Case one = random_case(random);
    const auto schedule = make_schedule(one.plan, one.request);
    ASSERT_TRUE(schedule.ok()) << round << ": " << schedule.error().to_string() << to_json(one.plan);
    const auto facts = check(*schedule);
    ASSERT_TRUE(facts.ok()) << round << ": " << facts.error().to_string() << to_json(one.plan);
    for (std::size_t p = 0; p < facts->size(); ++p) {
      const auto& program = schedule->programs[p];
      if (program.kind == ScheduleKind::kData || program.kind == ScheduleKind::kGpipe) continue;
      const PipelineLane& lane =
          one.plan.pipeline_lanes[static_cast<std::size_t>(program.lane) - one.plan.data_lanes.size()];
      EXPECT_LE((*facts)[p].peak_in_flight, warmup_of(lane, program.stage) + 1);
      if (program.kind == ScheduleKind::kStash && !lane.vertical_sync) {
        EXPECT_LE((*facts)[p].peak_versions, warmup_of(lane, program.stage) + 1);
      }
      if (program.kind == ScheduleKind::kTwoBw) {
        EXPECT_LE((*facts)[p].peak_versions, 2);
      }
      if (program.kind == ScheduleKind::kFlush) {
        EXPECT_EQ((*facts)[p].peak_versions, 1);
      }
    }
    // Executed for real, in any order, it ends, no weights change under a pass, and holders end with equal weights.
    const SymbolicResult result = SymbolicRun(*schedule, static_cast<std::uint64_t>(round)).run();
    ASSERT_TRUE(result.finished && !result.raced) << round << to_json(one.plan);
    ASSERT_TRUE(SymbolicRun(*schedule, 77).run() == result) << "the outcome depends on the order" << to_json(one.plan);
    EXPECT_EQ(result.forward.size(), result.backward.size());
    std::map<std::pair<int, int>, WeightName> seen;
    for (const auto& [at, name] : result.weights) {
      const auto& [segment, bucket, program] = at;
      EXPECT_EQ(seen.emplace(std::pair{segment, bucket}, name).first->second, name);
    }
    for (const auto& [at, names] : result.backward) EXPECT_EQ(result.forward.at(at), names);
  }
}

/// The idea of it all: lanes do not occur in the update.
TEST(Schedule, PlansThatKeepTheMathMakeTheSameWeights) {
  base::Stream random({.seed = 6});
  int compared = 0;
  for (int round = 0; round < 600; ++round) {
    Case one = random_case(random);
    if (!keeps_the_math(one.plan.pipeline_lanes.empty() ? ScheduleKind::kData
                                                        : *parse_schedule_kind(one.plan.pipeline_lanes[0].schedule)))
      continue;
    one.request.buckets.clear();
    const int workers = static_cast<int>(one.plan.workers());
    const Plan plain = plan_of({}, {data_lane(0, 1, workers - 1)});
    const SymbolicResult alone =
        SymbolicRun(made(plain, {.steps = one.request.steps, .last_step_workers = one.request.last_step_workers}), 1)
            .run();
    const SymbolicResult result = SymbolicRun(made(one.plan, one.request), 2).run();
    for (const auto& [at, name] : result.weights) EXPECT_EQ(name, alone.weights.begin()->second);
    ++compared;
  }
  EXPECT_GT(compared, 200);
}

}  // namespace
}  // namespace yoke::plan
