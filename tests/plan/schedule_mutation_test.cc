// A schedule with one fault is either refused by check() or computes the same: executed in many orders it comes to its
// end with the same weights, each pass with the same weights as before.
#include <gmock/gmock.h>

#include "tests/plan/schedule_plans.h"
#include "tests/plan/symbolic_run.h"
#include "yoke/plan/schedule.h"

namespace yoke::plan {
namespace {

using Kind = ScheduleOpKind;

std::vector<Case> good_cases() {
  std::vector<Case> cases;
  const auto add = [&](const char* name, Plan plan, ScheduleRequest request) {
    cases.push_back({.plan = std::move(plan), .request = std::move(request), .name = name});
  };
  add("data", plan_of({}, {data_lane(0, 2, 1), data_lane(1, 1, 0)}), {.steps = 2, .buckets = {2}});
  add("data_sequential", plan_of({}, {data_lane(0, 1, 0), data_lane(1, 1, 0)}, Sync::kSequential),
      {.steps = 2, .buckets = {2}});
  add("gpipe", plan_of({pipeline("gpipe", 3, {2, 1})}), {.steps = 2, .clip_norm = true});
  add("flush", plan_of({pipeline("1f1b-flush", 5, {1, 2, 1})}), {.steps = 2, .last_step_workers = 2});
  Plan again = plan_of({pipeline("1f1b-flush", 3, {2, 1})});
  again.pipeline_lanes[0].recompute = true;
  add("recompute", again, {});
  add("mixed", plan_of({pipeline("1f1b-flush", 3, {1, 1}), pipeline("gpipe", 2, {1}, "q", 4)}, {data_lane(0, 1, 1)}),
      {.buckets = {1, 2}});
  add("stash", plan_of({pipeline("1f1b-stash", 5, {1, 1, 1})}), {.steps = 2});
  add("stash_replicas", plan_of({pipeline("1f1b-stash", 4, {3, 2})}), {.steps = 3, .last_step_workers = 1});
  Plan vertical = plan_of({pipeline("1f1b-stash", 5, {2, 1})});
  vertical.pipeline_lanes[0].vertical_sync = true;
  add("vertical", vertical, {.steps = 2});
  add("two_bw", plan_of({pipeline("2bw", 4, {2, 1, 1})}), {.steps = 3, .buckets = {2, 1, 1}});
  add("forward_only", plan_of({pipeline("1f1b-flush", 3, {2, 1})}), {.forward_only = true});
  return cases;
}

class Mutation : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    good_ = *make_schedule(GetParam().plan, GetParam().request);
    ASSERT_TRUE(check(good_).ok()) << check(good_).error().to_string();
    result_ = SymbolicRun(good_, 1).run();
    ASSERT_TRUE(result_.finished && !result_.raced);
  }

  /// Whether check() refused it.
  bool refused(const Schedule& mutant, const std::string& what) {
    const auto facts = check(mutant);
    if (!facts.ok()) {
      EXPECT_EQ(facts.error().kind, base::ErrorKind::kInternal);
      return true;
    }
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      EXPECT_TRUE(SymbolicRun(mutant, seed).run() == result_) << "passed check() but computes something else: " << what;
    }
    return false;
  }

  std::string name(std::size_t program, std::size_t op) const {
    return good_.programs[program].device.to_string() + " op " + std::to_string(op) + ", " +
           describe(good_.programs[program].ops[op], good_);
  }

  template <typename Visit>
  void for_each_op(Visit visit) {
    for (std::size_t p = 0; p < good_.programs.size(); ++p) {
      for (std::size_t i = 0; i < good_.programs[p].ops.size(); ++i) visit(p, i);
    }
  }

  Schedule good_;
  SymbolicResult result_;
};

TEST_P(Mutation, EveryOpIsNeeded) {
  for_each_op([&](std::size_t p, std::size_t i) {
    Schedule mutant = good_;
    auto& ops = mutant.programs[p].ops;
    ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_TRUE(refused(mutant, "dropped")) << name(p, i);
  });
}

TEST_P(Mutation, NoOpMayComeTwice) {
  for_each_op([&](std::size_t p, std::size_t i) {
    Schedule mutant = good_;
    auto& ops = mutant.programs[p].ops;
    ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(i), ops[i]);
    EXPECT_TRUE(refused(mutant, "doubled")) << name(p, i);
  });
}

TEST_P(Mutation, NeighboursSwapOnlyWhereThatChangesNothing) {
  int caught = 0;
  for_each_op([&](std::size_t p, std::size_t i) {
    if (i + 1 == good_.programs[p].ops.size()) return;
    Schedule mutant = good_;
    std::swap(mutant.programs[p].ops[i], mutant.programs[p].ops[i + 1]);
    caught += refused(mutant, "swapped " + name(p, i)) ? 1 : 0;
  });
  EXPECT_GT(caught, 0);
}

TEST_P(Mutation, AnyTwoOpsSwapOnlyWhereThatChangesNothing) {
  base::Stream random({.seed = 3});
  for (int round = 0; round < 300; ++round) {
    const std::size_t p = static_cast<std::size_t>(random.below(good_.programs.size()));
    Schedule mutant = good_;
    auto& ops = mutant.programs[p].ops;
    std::swap(ops[static_cast<std::size_t>(random.below(ops.size()))],
              ops[static_cast<std::size_t>(random.below(ops.size()))]);
    refused(mutant, "swapped two of " + good_.programs[p].device.to_string());
  }
}

TEST_P(Mutation, PassesAndUpdatesHaveTheirVersion) {
  for_each_op([&](std::size_t p, std::size_t i) {
    for (const int change : {-1, 1}) {
      Schedule mutant = good_;
      mutant.programs[p].ops[i].version += change;
      const Kind kind = good_.programs[p].ops[i].kind;
      const bool has_none = kind == Kind::kLoad || kind == Kind::kSend || kind == Kind::kReceive;
      EXPECT_EQ(refused(mutant, "version of " + name(p, i)), !has_none) << name(p, i);
    }
  });
}

TEST_P(Mutation, MessagesHaveTheirPeerAndWorker) {
  for_each_op([&](std::size_t p, std::size_t i) {
    const ScheduleOp op = good_.programs[p].ops[i];
    const bool message = op.kind == Kind::kSend || op.kind == Kind::kReceive;
    const bool works = message || op.kind == Kind::kLoad || op.kind == Kind::kForward || op.kind == Kind::kBackward ||
                       op.kind == Kind::kRecompute;
    Schedule mutant = good_;
    auto& changed = mutant.programs[p].ops[i];
    for (int peer = -1; message && peer <= static_cast<int>(good_.programs.size()); ++peer) {
      if (peer == op.peer) continue;
      changed = op;
      changed.peer = peer;
      EXPECT_TRUE(refused(mutant, "peer")) << name(p, i);
    }
    for (int worker = -1; works && worker <= good_.workers; ++worker) {
      if (worker == op.worker) continue;
      changed = op;
      changed.worker = worker;
      EXPECT_TRUE(refused(mutant, "worker")) << name(p, i);
    }
    if (message) {
      changed = op;
      changed.payload = op.payload == Payload::kGradients ? Payload::kActivations : Payload::kGradients;
      EXPECT_TRUE(refused(mutant, "payload")) << name(p, i);
    }
  });
}

TEST_P(Mutation, ReducesHaveTheirBucket) {
  for_each_op([&](std::size_t p, std::size_t i) {
    const ScheduleOp op = good_.programs[p].ops[i];
    if (op.kind != Kind::kReduce && op.kind != Kind::kUpdate) return;
    for (const auto& [segment, bucket] :
         {std::pair{op.segment + 1, op.bucket}, {op.segment - 1, op.bucket}, {op.segment, op.bucket + 1}}) {
      Schedule mutant = good_;
      mutant.programs[p].ops[i].segment = segment;
      mutant.programs[p].ops[i].bucket = bucket;
      EXPECT_TRUE(refused(mutant, "bucket")) << name(p, i);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Schedules, Mutation, ::testing::ValuesIn(good_cases()),
                         [](const ::testing::TestParamInfo<Case>& each) { return each.param.name; });

}  // namespace
}  // namespace yoke::plan
