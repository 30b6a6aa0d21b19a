#include "yoke/sim/judge.h"

#include <gmock/gmock.h>

#include "tests/sim/uniform.h"
#include "yoke/plan/cost/layer_model.h"

namespace yoke::sim {
namespace {

using ::testing::HasSubstr;

/// Four layers; much to reduce and little to pass on, or the other way round.
profile::LayerGraph chain(double output_bytes, double parameter_bytes) {
  std::vector<profile::Layer> layers;
  std::vector<profile::Edge> edges;
  for (int i = 0; i < 4; ++i) {
    layers.push_back({.id = "l" + std::to_string(i),
                      .description = "Linear",
                      .forward_ms = 10,
                      .backward_ms = 20,
                      .output_bytes = {output_bytes},
                      .parameter_bytes = parameter_bytes});
    if (i > 0) edges.push_back({i - 1, i});
  }
  return *profile::LayerGraph::make(layers, edges);
}

base::Result<plan::AutoResult> best(const cluster::Cluster& cluster, const profile::LayerGraph& graph,
                                    std::vector<plan::ScheduleKind> schedules = {plan::ScheduleKind::kData,
                                                                                 plan::ScheduleKind::kFlush}) {
  const auto cost = plan::LayerModel::make(cluster, graph, {.lbs = 4});
  const SimulatedJudge judge(cluster, &graph);
  plan::AutoRequest request{.gbs = 64, .lbs = 4, .model = "chain"};
  request.schedules = std::move(schedules);
  return plan::solve_auto(
      {.cluster = cluster, .cost = cost.ok() ? &*cost : nullptr, .cost_name = "layers", .graph = &graph}, request,
      judge);
}

TEST(Judge, SlowLinksAndManyParametersCallForAPipeline) {
  const auto cluster = nodes(4, 1, 1e9, 1e8);
  const auto result = *best(cluster, chain(1e4, 1e8));
  EXPECT_FALSE(result.candidates.front().plan.pipeline_lanes.empty());
  // The all-reduce of 4e8 bytes takes 6 s, all of it but a pass exposed.
  const auto& data = *std::find_if(result.candidates.begin(), result.candidates.end(),
                                   [](const auto& each) { return each.name == "data lanes"; });
  EXPECT_GT(data.judgement.step_seconds, 6);
  EXPECT_GT(data.judgement.exposed_communication, 0.9);
  EXPECT_LT(result.candidates.front().judgement.step_seconds, 1);
}

TEST(Judge, LargeActivationsCallForDataLanes) {
  const auto result = *best(nodes(4, 1, 1e9, 1e8), chain(1e8, 1e4));
  EXPECT_EQ(result.candidates.front().name, "data lanes");
  EXPECT_NEAR(result.candidates.front().judgement.step_seconds, 4 * 0.12, 0.01);
}

TEST(Judge, HoldsPlansAgainstTheMemory) {
  auto list = nodes(2, 1, 1e9, 1e8).nodes();
  for (auto& node : list) node.memory = base::Bytes{700'000'000};
  const auto cluster = *cluster::Cluster::make(list);
  // 4e8 of parameters, three times over, fit no device; half of them do.
  const auto result = *best(cluster, chain(1e4, 1e8));
  for (const auto& each : result.candidates) EXPECT_TRUE(each.plan.data_lanes.empty());
  for (auto& node : list) node.memory = base::Bytes{100'000'000};
  const auto nothing = best(*cluster::Cluster::make(list), chain(1e4, 1e8));
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().kind, base::ErrorKind::kInfeasible);
  EXPECT_THAT(nothing.error().message, HasSubstr("memory"));
}

TEST(Judge, AStreamIsJudgedOnceItIsFull) {
  const auto cluster = nodes(4, 1, 1e9, 1e9);
  const auto graph = chain(1e3, 1e9);  // too much to reduce: a stage for each device
  const auto flush = *best(cluster, graph, {plan::ScheduleKind::kFlush});
  const auto stash = *best(cluster, graph, {plan::ScheduleKind::kStash});
  // 16 workers through four stages of 30 ms: 19 against 16 passes.
  EXPECT_NEAR(flush.candidates.front().judgement.step_seconds, 19 * 0.03, 0.03);
  EXPECT_NEAR(stash.candidates.front().judgement.step_seconds, 16 * 0.03, 0.01);
}

TEST(Judge, MoreInFlightHidesSlowMessages) {
  // Messages of 10 ms between stages of 30 ms.
  const auto result = *best(nodes(4, 1, 1e9, 1e8), chain(1e6, 1e9), {plan::ScheduleKind::kFlush});
  EXPECT_THAT(result.candidates.front().name, HasSubstr("1f1b-flush pipeline 1-1-1-1, warm-up"));
  EXPECT_GT(result.candidates.front().plan.pipeline_lanes[0].stages[0].warmup, 3);
}

TEST(Judge, WithoutAProfileAPlanIsWorthItsPrediction) {
  plan::Plan plan = data_plan(2, 1, 0);
  for (auto& lane : plan.data_lanes) lane.seconds = {.forward = 1, .backward = 2, .all_reduce_exposed = 0.5};
  const SimulatedJudge judge(nodes(1, 2, 1, 1), nullptr);
  EXPECT_NEAR(judge.judge(plan)->step_seconds, 3.5, 1e-9);
}

}  // namespace
}  // namespace yoke::sim
