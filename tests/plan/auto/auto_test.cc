#include "yoke/plan/solve/auto/auto.h"

#include <gmock/gmock.h>

#include <functional>
#include <set>

#include "tests/support/files.h"
#include "yoke/plan/cost/layer_model.h"

namespace yoke::plan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using yoke::testing::expect_input_error;

/// Six layers in a row, 10 ms each.
profile::LayerGraph chain(double parameter_bytes = 1e6) {
  std::vector<profile::Layer> layers;
  std::vector<profile::Edge> edges;
  for (int i = 0; i < 6; ++i) {
    layers.push_back({.id = "l" + std::to_string(i),
                      .description = "Linear",
                      .forward_ms = 4,
                      .backward_ms = 6,
                      .output_bytes = {1e4},
                      .parameter_bytes = parameter_bytes});
    if (i > 0) edges.push_back({i - 1, i});
  }
  return *profile::LayerGraph::make(layers, edges);
}

cluster::Node node(const std::string& name, int devices, const std::string& type, double tflops) {
  return {.name = name,
          .devices = devices,
          .type = type,
          .intra_bandwidth = base::Bandwidth{1e9},
          .inter_bandwidth = base::Bandwidth{1e8},
          .tflops = tflops};
}

/// Says what it is told, and remembers what it was asked.
class StubJudge final : public PlanJudge {
 public:
  explicit StubJudge(std::function<base::Result<Judgement>(const Plan&)> rule) : rule_(std::move(rule)) {}
  base::Result<Judgement> judge(const Plan& plan) const override {
    EXPECT_TRUE(validate(plan).ok()) << validate(plan).error().to_string();
    EXPECT_TRUE(make_schedule(plan).ok());
    asked_.push_back(plan);
    return rule_(plan);
  }
  const std::vector<Plan>& asked() const { return asked_; }

 private:
  std::function<base::Result<Judgement>(const Plan&)> rule_;
  mutable std::vector<Plan> asked_;
};

struct Setting {
  cluster::Cluster cluster;
  profile::LayerGraph graph;
  LayerModel cost;

  static Setting make(std::vector<cluster::Node> nodes, double parameter_bytes = 1e6) {
    auto cluster = *cluster::Cluster::make(std::move(nodes));
    auto graph = chain(parameter_bytes);
    auto cost = *LayerModel::make(cluster, graph, {.lbs = 2});
    return {std::move(cluster), std::move(graph), std::move(cost)};
  }
  AutoInputs inputs() const { return {.cluster = cluster, .cost = &cost, .cost_name = "layers", .graph = &graph}; }
};

Setting unlike() {
  // Enough parameters that reducing them costs more than passing activations on.
  return Setting::make({node("a", 2, "quick", 10), node("b", 2, "quick", 10), node("c", 2, "slow", 5)}, 1e8);
}

AutoRequest sixteen() {
  return {.gbs = 32, .lbs = 2, .model = "chain"};
}

TEST(Auto, TakesWhatTheJudgePrefers) {
  const Setting setting = unlike();
  const auto preferred = [&](const std::function<bool(const Plan&)>& liked) {
    const StubJudge judge([&](const Plan& plan) -> base::Result<Judgement> {
      return Judgement{.step_seconds = liked(plan) ? 1.0 : 2.0};
    });
    return solve_auto(setting.inputs(), sixteen(), judge)->candidates.front();
  };
  EXPECT_EQ(preferred([](const Plan& plan) { return plan.pipeline_lanes.empty(); }).name, "data lanes");
  const auto mixed =
      preferred([](const Plan& plan) { return !plan.pipeline_lanes.empty() && !plan.data_lanes.empty(); });
  EXPECT_THAT(mixed.name, HasSubstr("data lanes on the rest"));
  EXPECT_EQ(mixed.plan.step_seconds, 1.0);
  EXPECT_EQ(mixed.plan.model, "chain");
  EXPECT_THAT(preferred([](const Plan& plan) { return plan.pipeline_lanes.size() > 1; }).name,
              HasSubstr("pipeline in each node"));
}

TEST(Auto, TheLayerProfileSaysTheMinibatch) {
  Setting setting = unlike();
  setting.graph = setting.graph.with_lbs(2);
  const StubJudge judge([](const Plan&) { return Judgement{.step_seconds = 1}; });
  AutoRequest request = sixteen();
  request.lbs.reset();
  const auto solved = solve_auto(setting.inputs(), request, judge);
  ASSERT_TRUE(solved.ok()) << solved.error().to_string();
  bool pipelines = false;
  for (const auto& each : solved->candidates) {
    EXPECT_EQ(each.plan.lbs, 2) << each.name;
    EXPECT_EQ(each.solution.has_value(), each.plan.pipeline_lanes.empty()) << each.name;
    pipelines = pipelines || !each.plan.pipeline_lanes.empty();
  }
  EXPECT_TRUE(pipelines);
  request.gbs = 33;
  expect_input_error(solve_auto(setting.inputs(), request, judge), "gbs: found 33, expected a multiple");
}

TEST(Auto, OffersEveryKindOfPlanThatKeepsTheMath) {
  const Setting setting = unlike();
  const StubJudge judge([](const Plan&) -> base::Result<Judgement> { return Judgement{.step_seconds = 1}; });
  const auto result = *solve_auto(setting.inputs(), sixteen(), judge);
  std::set<std::string> names;
  for (const auto& each : result.candidates) {
    names.insert(each.name);
    EXPECT_EQ(each.plan.workers(), 16);
    EXPECT_TRUE(validate(each.plan).ok());
    for (const auto& lane : each.plan.pipeline_lanes) {
      EXPECT_TRUE(keeps_the_math(*parse_schedule_kind(lane.schedule)));
    }
  }
  for (std::size_t i = 0; i < judge.asked().size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(judge.asked()[i] == judge.asked()[j]) << "asked twice";
  }
  EXPECT_THAT(names, Contains("data lanes"));
  EXPECT_THAT(names, Contains(::testing::StartsWith("1f1b-flush pipeline ")));
  EXPECT_THAT(names, Contains(::testing::StartsWith("gpipe pipeline ")));
  EXPECT_THAT(names, Contains(HasSubstr("pipeline on quick, data lanes on the rest")));
}

TEST(Auto, WhoWantsAPipelineGetsSeveralStages) {
  // So little to reduce that two whole models are faster.
  const Setting setting = Setting::make({node("a", 2, "quick", 10)}, 4);
  const StubJudge judge([](const Plan&) { return Judgement{.step_seconds = 1}; });
  AutoRequest request = sixteen();
  const auto free = solve_auto(setting.inputs(), request, judge);
  ASSERT_TRUE(free.ok());
  for (const auto& each : free->candidates) EXPECT_TRUE(each.plan.pipeline_lanes.empty()) << each.name;
  request.schedules = {ScheduleKind::kFlush};
  const auto solved = solve_auto(setting.inputs(), request, judge);
  ASSERT_TRUE(solved.ok()) << solved.error().to_string();
  for (const auto& each : solved->candidates) {
    EXPECT_EQ(each.plan.pipeline_lanes.front().stages.size(), 2U) << each.name;
  }
}

TEST(Auto, StaleSchedulesOnlyWhenAsked) {
  const Setting setting = unlike();
  const StubJudge judge([](const Plan&) -> base::Result<Judgement> { return Judgement{.step_seconds = 1}; });
  AutoRequest request = sixteen();
  request.schedules = {ScheduleKind::kStash, ScheduleKind::kTwoBw};
  const auto result = *solve_auto(setting.inputs(), request, judge);
  ASSERT_FALSE(result.candidates.empty());
  for (const auto& each : result.candidates) {
    EXPECT_EQ(each.plan.pipeline_lanes.size(), 1U);
    EXPECT_TRUE(each.plan.data_lanes.empty());
  }
}

TEST(Auto, RecomputesWhereNothingElseFits) {
  const Setting setting = unlike();
  const StubJudge judge([](const Plan& plan) -> base::Result<Judgement> {
    const bool recompute = !plan.pipeline_lanes.empty() && plan.pipeline_lanes[0].recompute;
    return Judgement{.step_seconds = 1, .excess = recompute ? "" : "memory: a:0 needs more than it has"};
  });
  const auto result = *solve_auto(setting.inputs(), sixteen(), judge);
  for (const auto& each : result.candidates) EXPECT_THAT(each.name, HasSubstr("recomputing"));
  EXPECT_THAT(result.left_out, Contains("data lanes: memory: a:0 needs more than it has"));
}

TEST(Auto, DataLanesThatFitNowhereAreLeftOutByName) {
  const Setting setting = unlike();
  const StubJudge judge([](const Plan&) -> base::Result<Judgement> { return Judgement{.step_seconds = 1}; });
  AutoInputs inputs = setting.inputs();
  inputs.cost = nullptr;
  inputs.no_cost = "memory: too small";
  EXPECT_THAT(solve_auto(inputs, sixteen(), judge)->left_out, Contains("data lanes: memory: too small"));
}

TEST(Auto, NothingFitsIsInfeasibleAndSaysWhy) {
  const Setting setting = unlike();
  const StubJudge judge([](const Plan&) -> base::Result<Judgement> {
    return Judgement{.step_seconds = 1, .excess = "memory: a:0 needs 3 GB and has 1 GB"};
  });
  const auto result = solve_auto(setting.inputs(), sixteen(), judge);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, base::ErrorKind::kInfeasible);
  EXPECT_THAT(result.error().message, HasSubstr("data lanes: memory: a:0 needs 3 GB and has 1 GB"));
  EXPECT_LT(result.error().message.size(), 600U);
}

TEST(Auto, DataLanesNeedNoGraph) {
  const Setting setting = unlike();
  const StubJudge judge([](const Plan&) -> base::Result<Judgement> { return Judgement{.step_seconds = 1}; });
  AutoInputs inputs = setting.inputs();
  inputs.graph = nullptr;
  const auto result = *solve_auto(inputs, {.gbs = 32}, judge);
  EXPECT_EQ(result.candidates.front().name, "data lanes");
  EXPECT_EQ(result.candidates.front().plan.cost_model, "layers");
}

TEST(Auto, RefusesBadRequests) {
  const Setting setting = unlike();
  const StubJudge judge([](const Plan&) -> base::Result<Judgement> { return Judgement{.step_seconds = 1}; });
  const auto solve = [&](const AutoRequest& request) { return solve_auto(setting.inputs(), request, judge); };
  expect_input_error(solve({.gbs = 0, .lbs = 2}), "gbs: found 0");
  expect_input_error(solve({.gbs = 32}), "lbs: found none");
  expect_input_error(solve({.gbs = 33, .lbs = 2}), "gbs: found 33, expected a multiple of the local batch size 2");
  AutoRequest none{.gbs = 32, .lbs = 2};
  none.schedules.clear();
  expect_input_error(solve(none), "schedule: found no schedule");
  AutoInputs blind = setting.inputs();
  blind.graph = nullptr;
  AutoRequest piped{.gbs = 32, .lbs = 2};
  piped.schedules = {ScheduleKind::kFlush};
  expect_input_error(solve_auto(blind, piped, judge), "a pipeline needs a layer profile");
}

}  // namespace
}  // namespace yoke::plan
