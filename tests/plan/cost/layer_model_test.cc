#include "yoke/plan/cost/layer_model.h"

#include <gmock/gmock.h>

#include "tests/support/files.h"
#include "yoke/plan/solve/batch/batch.h"

namespace yoke::plan {
namespace {

using yoke::testing::expect_input_error;

/// A layer of 1 s forward and 2 s backward with a small bucket after one of 26 MiB.
profile::LayerGraph graph() {
  return *profile::LayerGraph::make({{.id = "first",
                                      .description = "Linear",
                                      .forward_ms = 500,
                                      .backward_ms = 1000,
                                      .output_bytes = {1e6},
                                      .parameter_bytes = 26 * 1048576.0},
                                     {.id = "second",
                                      .description = "Linear",
                                      .forward_ms = 500,
                                      .backward_ms = 1000,
                                      .output_bytes = {1e6},
                                      .parameter_bytes = 2 * 1048576.0}},
                                    {{0, 1}});
}

cluster::Cluster two_nodes(std::optional<base::Bytes> memory = {}) {
  return *cluster::Cluster::make({{.name = "a",
                                   .devices = 2,
                                   .memory = memory,
                                   .intra_bandwidth = base::Bandwidth{26 * 1048576.0},
                                   .inter_bandwidth = base::Bandwidth{13 * 1048576.0}},
                                  {.name = "b",
                                   .devices = 2,
                                   .speed = 0.5,
                                   .memory = memory,
                                   .intra_bandwidth = base::Bandwidth{26 * 1048576.0},
                                   .inter_bandwidth = base::Bandwidth{13 * 1048576.0}}});
}

TEST(LayerModel, ASingleDeviceTakesItsLayers) {
  const auto model = *LayerModel::make(two_nodes(), graph(), {.lbs = 8});
  EXPECT_THAT(model.node_classes(), ::testing::ElementsAre(0, 1));
  EXPECT_DOUBLE_EQ(model.step_seconds(0, {.lbs = 8, .ga = 2}, Sync::kOverlap, {}), 9);
  EXPECT_DOUBLE_EQ(model.step_seconds(1, {.lbs = 8}, Sync::kOverlap, {}), 6);
  EXPECT_EQ(model.max_vsw(0, 8), 1);
  EXPECT_EQ(model.max_vsw(0, 4), 0);
}

TEST(LayerModel, AnUpdateIsPaidOnceAStep) {
  auto layers = graph().layers();
  layers[0].update_ms = 200;
  layers[1].update_ms = 50;
  const auto model = *LayerModel::make(two_nodes(), *profile::LayerGraph::make(layers, graph().edges()), {.lbs = 8});
  EXPECT_DOUBLE_EQ(model.step_seconds(0, {.lbs = 8, .ga = 2}, Sync::kOverlap, {}), 9.25);
  EXPECT_DOUBLE_EQ(model.step_seconds(1, {.lbs = 8}, Sync::kOverlap, {}), 6.5) << "half the speed";
}

TEST(LayerModel, TheAllReduceIsARing) {
  const auto model = *LayerModel::make(two_nodes(), graph(), {.lbs = 8});
  // The buckets are the second layer, then the first: 2 and 26 MiB. Two devices: each moves its bytes once.
  const auto inside = model.parts(0, {.lbs = 8}, Sync::kOverlap, {.devices = 2});
  EXPECT_DOUBLE_EQ(inside.all_reduce_hidden, 2.0 / 26);
  EXPECT_DOUBLE_EQ(inside.all_reduce_exposed, 1);
  const auto outside = model.parts(0, {.lbs = 8}, Sync::kSequential, {.devices = 4, .across_nodes = true});
  EXPECT_DOUBLE_EQ(outside.all_reduce_hidden, 0);
  EXPECT_DOUBLE_EQ(outside.all_reduce_exposed, 1.5 * 28 / 13);
  EXPECT_DOUBLE_EQ(model.lane(0, 8, 1, Sync::kSequential, {.devices = 4, .across_nodes = true}).seconds(0),
                   outside.total());
}

TEST(LayerModel, TheBatchSolverDealsWithIt) {
  const auto model = *LayerModel::make(two_nodes(), graph(), {.lbs = 8});
  const auto solved = *solve_batch(model, {.gbs = 12 * 8, .lbs = 8});
  // The devices of a are twice as fast: 4 workers each against 2.
  ASSERT_EQ(solved.lanes.size(), 2U);
  EXPECT_EQ(solved.lanes[0].ga, 3);
  EXPECT_EQ(solved.lanes[1].ga, 1);
}

TEST(LayerModel, RefusesWhatCannotBe) {
  const auto tight = LayerModel::make(two_nodes(base::Bytes{30 << 20}), graph(), {.lbs = 8});
  ASSERT_FALSE(tight.ok());
  EXPECT_EQ(tight.error().kind, base::ErrorKind::kInfeasible);
  EXPECT_THAT(tight.error().message, ::testing::HasSubstr("memory: a worker on one device needs"));
  auto layers = graph().layers();
  for (auto& layer : layers) layer.forward_ms = layer.backward_ms = 0;
  expect_input_error(LayerModel::make(two_nodes(), *profile::LayerGraph::make(layers, {{0, 1}}), {.lbs = 8}),
                     "has no times");
}

}  // namespace
}  // namespace yoke::plan
