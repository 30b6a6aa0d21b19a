#include "yoke/plan/cost/iidp_model.h"

#include <gtest/gtest.h>

#include "tests/plan/batch/quickstart.h"
#include "tests/plan/batch/small_model.h"

namespace yoke::plan {
namespace {

using namespace testing;  // NOLINT: the helpers of these tests

TEST(RoundDecimal, RoundsTheExactValueOfTheDouble) {
  EXPECT_EQ(round_decimal(0.125, 2), 0.12);  // a true tie goes to even
  EXPECT_EQ(round_decimal(0.375, 2), 0.38);
  EXPECT_EQ(round_decimal(2.675, 2), 2.67);  // the double lies below
  EXPECT_EQ(round_decimal(1e300, 2), 1e300);
}

TEST(FitLine, IsFlatWhenAllPointsShareOneX) {
  const Line line = fit_line({2, 2}, {1, 3});
  EXPECT_EQ(line.slope, 0);
  EXPECT_EQ(line.intercept, 2);
}

TEST(RecommendSync, FollowsTheAverageOfAllBucketsButTheLast) {
  EXPECT_EQ(recommend_sync({{7.81, 30.04, 25.04, 25.25, 9.2}}), Sync::kOverlap);
  EXPECT_EQ(recommend_sync({{38.9, 38.1, 1}}), Sync::kSequential);
  EXPECT_EQ(recommend_sync({{37.9, 37.9, 400}}), Sync::kOverlap);  // 37 MiB in whole ones: not above 1.5 times 25
  EXPECT_EQ(recommend_sync({{400}}), Sync::kOverlap);              // a single bucket divides by nothing
  EXPECT_EQ(explain_sync({{38.9, 38.1, 1}}),
            "sequential, because the gradient buckets before the last have 38 MiB on average, more than 37.5");
  EXPECT_EQ(explain_sync({{37.9, 400}}),
            "overlap, because the gradient buckets before the last have 37 MiB on average, not more than 37.5");
  EXPECT_EQ(explain_sync({{400}}), "overlap, because all gradients are in one bucket");
}

TEST(IidpModel, DerivesTheConstantsOfTheOriginal) {
  YOKE_NEEDS_SHARED_DATA();
  const std::map<std::string, IidpModel> models{{"iidp", quickstart_model("iidp")},
                                                {"jabas", quickstart_model("jabas")}};
  const base::Document golden = load(shared_data("golden/throughput.json"));
  base::Reader reader(golden);
  int checked = 0;
  for (auto& row : reader.root().field("models").items()) {
    const IidpModel& model = models.at(row.field("dataset").text());
    const auto lbs = static_cast<int>(row.field("lbs").integer());
    const IidpCurve* curve = model.curve(class_of(model, row.field("node").text()), lbs);
    ASSERT_NE(curve, nullptr);
    EXPECT_EQ(curve->single_rate(), row.field("init_thp").number());
    EXPECT_EQ(curve->max_vsw(), row.field("memory_max_num_models").integer());
    expect_close(curve->update_seconds(), row.field("update_time").number(), 1e-14);
    expect_close(curve->copy_seconds(), row.field("copy_time_per_model").number(), 1e-14);
    expect_close(curve->forward_ratio(), row.field("fwd_ratio").number(), 1e-14);
    expect_close(curve->backward_ratio(), row.field("bwd_ratio").number(), 1e-14);
    expect_close(curve->bn_sync_seconds(), row.field("bn_sync_time").number(), 1e-14);
    for (auto& [vsw, seconds] : row.field("data_times").entries()) {
      expect_close(curve->data_seconds(std::stoi(vsw)), seconds.number(), 1e-14);
    }
    for (auto& [vsw, seconds] : row.field("fwd_bwd_time").entries()) {
      EXPECT_EQ(curve->compute_seconds(std::stoi(vsw)), seconds.number());
    }
    ++checked;
  }
  ASSERT_TRUE(reader.ok()) << reader.error().to_string();
  EXPECT_EQ(checked, 19);
}

TEST(IidpModel, ReproducesEveryGoldenStepTime) {
  YOKE_NEEDS_SHARED_DATA();
  const std::map<std::string, IidpModel> models{{"iidp", quickstart_model("iidp")},
                                                {"jabas", quickstart_model("jabas")}};
  const base::Document golden = load(shared_data("golden/throughput.json"));
  base::Reader reader(golden);
  int checked = 0;
  for (auto& row : reader.root().field("evaluations").items()) {
    const IidpModel& model = models.at(row.field("dataset").text());
    const int device_class = class_of(model, row.field("node").text());
    const LaneWork work{.lbs = static_cast<int>(row.field("lbs").integer()),
                        .vsw = static_cast<int>(row.field("num_models").integer()),
                        .ga = static_cast<int>(row.field("accum_step").integer())};
    const Sync sync = row.field("weight_sync").text() == "overlap" ? Sync::kOverlap : Sync::kSequential;
    const Extent extent{.devices = static_cast<int>(row.field("total_gpus").integer()),
                        .across_nodes = row.field("total_servers").integer() > 1};
    const double expected = row.field("iter_time").number();
    expect_close(model.step_seconds(device_class, work, sync, extent), expected, 1e-12);
    expect_close(model.parts(device_class, work, sync, extent).total(), expected, 1e-12);
    ++checked;
  }
  ASSERT_TRUE(reader.ok()) << reader.error().to_string();
  EXPECT_EQ(checked, 2720);
}

TEST(IidpModel, PutsEqualNodesIntoOneClass) {
  EXPECT_EQ(Small{}.model(3)->node_classes(), (std::vector<int>{0, 0, 0}));
}

TEST(IidpModel, RefusesWhatItCannotCost) {
  Small uncovered;
  uncovered.profiles.nodes[0].device_type = "other";
  uncovered.profiles.nodes[0].node = "elsewhere";
  Small mistyped;
  mistyped.profiles.nodes[0].device_type = "other";
  Small no_buckets;
  no_buckets.profiles.buckets = {};
  Small no_link;
  no_link.node.inter_bandwidth.reset();
  Small no_comm;
  no_comm.profiles.comm.inter.clear();
  Small no_single;
  no_single.profiles.nodes[0].by_lbs[8].compute.erase(no_single.profiles.nodes[0].by_lbs[8].compute.begin());
  for (const Small& small : {uncovered, mistyped, no_buckets, no_link, no_comm, no_single}) {
    const auto model = small.model();
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().kind, base::ErrorKind::kInput);
  }
}

TEST(IidpModel, CostsOneDeviceThatWasNeverMeasuredWithOthers) {
  Small lone;
  lone.node.devices = 1;
  lone.node.intra_bandwidth.reset();
  lone.node.inter_bandwidth.reset();
  lone.profiles.comm = {};
  const auto model = lone.model(1);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  const StepParts parts = model->parts(0, {.lbs = 8}, Sync::kSequential, {});
  EXPECT_EQ(parts.all_reduce_exposed + parts.all_reduce_hidden, 0);
  EXPECT_NEAR(parts.total(), 0.001 + 0.030, 1e-12);
}

TEST(IidpModel, KeepsTimesThatTheOriginalWouldRoundToNothing) {
  Small fast;
  for (auto& sample : fast.profiles.nodes[0].by_lbs[8].compute) {
    sample.forward_ms = 1e-4 * sample.vsw;
    sample.backward_ms = 2e-4 * sample.vsw;
  }
  EXPECT_GT(fast.model()->curve(0, 8)->compute_seconds(1), 0);
  Small slow;
  for (auto& sample : slow.profiles.nodes[0].by_lbs[8].compute) sample.forward_ms = 1e8 * sample.vsw;
  EXPECT_NEAR(slow.model()->curve(0, 8)->compute_seconds(1), 1e5, 1e2);
}

}  // namespace
}  // namespace yoke::plan
