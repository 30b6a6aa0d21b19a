#include "yoke/sim/costs.h"

#include <gmock/gmock.h>

#include "tests/sim/uniform.h"
#include "tests/support/files.h"

namespace yoke::sim {
namespace {

using ::testing::ElementsAre;
using yoke::testing::expect_input_error;

/// in - a - b - c, and a skip from a to c.
profile::LayerGraph small_graph() {
  const auto layer = [](const char* id, double forward, double backward, double output, double parameters) {
    return profile::Layer{.id = id,
                          .description = id,
                          .forward_ms = forward,
                          .backward_ms = backward,
                          .output_bytes = {output},
                          .parameter_bytes = parameters};
  };
  return *profile::LayerGraph::make(
      {layer("a", 100, 200, 1000, 4000), layer("b", 200, 300, 2000, 8000), layer("c", 300, 500, 4000, 16000)},
      {{0, 1}, {1, 2}, {0, 2}});
}

plan::Plan plan_of(const std::vector<std::vector<std::string>>& stages, const std::string& schedule = "gpipe") {
  plan::Plan plan = pipeline_plan(schedule, 2, std::vector<int>(stages.size(), 1));
  for (std::size_t s = 0; s < stages.size(); ++s) plan.pipeline_lanes[0].stages[s].layers = stages[s];
  return plan;
}

PricedSchedule priced(const base::Result<PricedSchedule>& result) {
  EXPECT_TRUE(result.ok()) << result.error().to_string();
  return result.ok() ? *result : PricedSchedule{};
}

TEST(Costs, OfStagesComeFromTheirLayers) {
  auto list = nodes(1, 3, 1e6, 1e6).nodes();
  list[0].speed = 0.5;
  const auto result = priced(price_with_profile(plan_of({{"a"}, {"b"}, {"c"}}), small_graph(),
                                                *cluster::Cluster::make(list), {.optimizer_copies = 2}));
  const auto& programs = result.costs.programs;
  EXPECT_DOUBLE_EQ(programs[1].forward, 0.4);
  EXPECT_DOUBLE_EQ(programs[1].backward, 0.6);
  // What a sends to c passes through the stage of b.
  EXPECT_DOUBLE_EQ(programs[0].activations.bytes, 1000);
  EXPECT_DOUBLE_EQ(programs[1].activations.bytes, 3000);
  EXPECT_DOUBLE_EQ(programs[1].gradients.bytes, 1000);
  EXPECT_DOUBLE_EQ(programs[2].activations.bytes, 0);
  EXPECT_DOUBLE_EQ(programs[1].worker_bytes, 2000 + 1000);
  EXPECT_DOUBLE_EQ(programs[1].weight_bytes, 8000);
  EXPECT_DOUBLE_EQ(programs[1].fixed_bytes, 3 * 8000);
  EXPECT_THAT(result.costs.bucket_bytes, ElementsAre(ElementsAre(4000), ElementsAre(8000), ElementsAre(16000)));
}

TEST(Costs, BucketsAreReadyWhenTheirLayersAreDone) {
  CostOptions options{.update_bytes_per_s = 28000};
  options.buckets = {.first_cap = {1}, .cap = {1}};  // a bucket for each layer
  const auto result = priced(price_with_profile(data_plan(2, 3, 0), small_graph(), nodes(1, 2, 1e6, 1e6), options));
  const auto& lane = result.costs.programs[0];
  EXPECT_EQ(lane.round_workers, 3);
  EXPECT_DOUBLE_EQ(lane.forward, 3 * 0.6);
  EXPECT_THAT(result.costs.bucket_bytes, ElementsAre(ElementsAre(16000, 8000, 4000)));
  ASSERT_EQ(lane.buckets.size(), 3U);
  EXPECT_DOUBLE_EQ(lane.buckets[0].ready, 0.5);
  EXPECT_DOUBLE_EQ(lane.buckets[1].ready, 0.8);
  EXPECT_DOUBLE_EQ(lane.buckets[2].ready, 1);
  EXPECT_NEAR(lane.buckets[0].update_seconds, 16.0 / 28, 1e-12);
}

TEST(Costs, UpdatesTakeWhatTheProfileSays) {
  auto layers = small_graph().layers();
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].update_ms = 10.0 * static_cast<double>(i + 1);
  const auto graph = *profile::LayerGraph::make(layers, small_graph().edges());
  auto list = nodes(1, 2, 1e6, 1e6).nodes();
  list[0].speed = 0.5;
  const auto cluster = *cluster::Cluster::make(list);
  const plan::Plan plan = plan_of({{"a"}, {"b", "c"}});
  const auto result = priced(price_with_profile(plan, graph, cluster));
  const auto& programs = result.costs.programs;
  EXPECT_NEAR(programs[0].buckets[0].update_seconds, 0.02, 1e-12);
  EXPECT_NEAR(programs[1].buckets[0].update_seconds, 0.1, 1e-12);
  const auto without = priced(price_with_profile(plan, small_graph(), cluster));
  const double gained = run(result.schedule, result.costs).seconds - run(without.schedule, without.costs).seconds;
  EXPECT_NEAR(gained, 0.02, 1e-9) << "the first stage is the last to be done";
}

TEST(Costs, AStageWithoutParametersUpdatesNothing) {
  auto layers = small_graph().layers();
  layers[1].parameter_bytes = 0;
  const auto graph = *profile::LayerGraph::make(layers, small_graph().edges());
  const auto result = priced(price_with_profile(plan_of({{"a"}, {"b"}, {"c"}}), graph, nodes(1, 3, 1e6, 1e6)));
  EXPECT_EQ(result.schedule.segments[1].buckets, 0);
  EXPECT_TRUE(plan::check(result.schedule).ok());
  EXPECT_NEAR(run(result.schedule, result.costs).seconds, 0.3 + 0.5 + 0.8 + 2 * 0.8 - 0.8, 0.7);
}

TEST(Costs, DataLanesBesideAPipelineShareItsSegments) {
  plan::Plan plan = plan_of({{"a", "b"}, {"c"}});
  plan.data_lanes = {{.device = {"n0", 2}, .vsw = 1, .ga = 0}};
  plan.gbs = 3;
  const auto result = priced(price_with_profile(plan, small_graph(), nodes(1, 3, 1e6, 1e6)));
  EXPECT_EQ(result.costs.programs[0].buckets.size(), 2U);
  EXPECT_DOUBLE_EQ(result.costs.programs[0].forward, 0.6);
  const SimReport report = run(result.schedule, result.costs, network_of(result.schedule, nodes(1, 3, 1e6, 1e6)));
  EXPECT_GT(report.seconds, 1.6);
}

TEST(Costs, RefusesAPlanOfAnotherModel) {
  const auto cluster = nodes(1, 3, 1e6, 1e6);
  expect_input_error(price_with_profile(plan_of({{"a"}, {"b", "d1"}, {"c"}}), small_graph(), cluster),
                     "pipeline_lanes[0].stages[1].layers: the plan has the layer `d1`, which is not in the profile");
  expect_input_error(price_with_profile(plan_of({{"a"}, {"c"}}), small_graph(), cluster),
                     "the plan has 2 layers, the profile 3; `b` is in no stage");
  plan::Plan plan = plan_of({{"a"}, {"b"}, {"c"}});
  plan.pipeline_lanes[0].stages[2].devices = {{"n9", 0}};
  expect_input_error(price_with_profile(plan, small_graph(), cluster), "n9:0: the cluster has no node `n9`");
}

TEST(Costs, APredictedDataPlanTakesWhatItPredicts) {
  plan::Plan plan = data_plan(2, 2, 1);
  // As the IIDP model has it: hidden and exposed parts of the all-reduce, the update at the end.
  plan::StepParts parts{
      .data = 0.2, .forward = 2, .backward = 4, .all_reduce_exposed = 0.5, .update = 0.1, .all_reduce_hidden = 1.5};
  for (auto& lane : plan.data_lanes) lane.seconds = parts;
  const auto result = priced(price_as_predicted(plan));
  EXPECT_NEAR(run(result.schedule, result.costs).seconds, parts.total(), 1e-9);
  // Too long to hide: what did not fit is exposed.
  parts.all_reduce_hidden = 2;
  parts.all_reduce_exposed = 3;
  for (auto& lane : plan.data_lanes) lane.seconds = parts;
  const auto slow = priced(price_as_predicted(plan));
  EXPECT_NEAR(run(slow.schedule, slow.costs).seconds, parts.total(), 1e-9);
}

TEST(Costs, APredictedPipelineTakesItsStagesTransfersAndAllReduces) {
  plan::Plan plan = pipeline_plan("gpipe", 4, {1, 1});
  auto& stages = plan.pipeline_lanes[0].stages;
  // Over the only cut, 0.25 s each way: 0.5 s a worker at both stages.
  stages[0].predicted = plan::StagePrediction{.compute = 3, .transfers = 0.5};
  stages[1].predicted = plan::StagePrediction{.compute = 3, .transfers = 0.5};
  const auto result = priced(price_as_predicted(plan));
  EXPECT_DOUBLE_EQ(result.costs.programs[0].activations.seconds, 0.25);
  EXPECT_DOUBLE_EQ(result.costs.programs[1].gradients.seconds, 0.25);
  EXPECT_DOUBLE_EQ(result.costs.programs[1].activations.seconds, 0);
  EXPECT_NEAR(run(result.schedule, result.costs).seconds, 5 * 3 + 0.5, 1e-9);
}

TEST(Costs, RefusesAPlanWithoutTimes) {
  plan::Plan plan = pipeline_plan("gpipe", 4, {1, 1});
  plan.pipeline_lanes[0].stages[1].seconds = 0;
  expect_input_error(price_as_predicted(plan), "pipeline_lanes[0].stages[1].seconds: the stage has no time");
  expect_input_error(price_as_predicted(data_plan(1, 1, 0)), "data_lanes[0].seconds: the plan has no times");
  plan.data_lanes = {{.device = {"n0", 7}}};
  plan.gbs = 5;
  expect_input_error(price_as_predicted(plan), "give a layer profile");
}

TEST(Costs, MemoryBeyondADeviceIsFound) {
  auto list = nodes(1, 3, 1e6, 1e6).nodes();
  list[0].memory = base::Bytes{50};
  const auto cluster = *cluster::Cluster::make(list);
  const auto schedule = schedule_of(plan_of({{"a"}, {"b"}, {"c"}}));
  EXPECT_FALSE(memory_excess(schedule, {10, 50, 20}, cluster));
  const auto excess = memory_excess(schedule, {10, 51, 90}, cluster);
  ASSERT_TRUE(excess);
  EXPECT_EQ(excess->program, 1);
  EXPECT_EQ(excess->limit, 50);
}

}  // namespace
}  // namespace yoke::sim
