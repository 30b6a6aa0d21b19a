// Estimates: the arithmetic on a model counted by hand, and the way of an estimate through the commands.
#include <gmock/gmock.h>

#include "tests/cli/run_yoke.h"
#include "tests/support/files.h"
#include "tests/support/temp_folder.h"
#include "yoke/cli/estimate.h"
#include "yoke/plan/plan.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using profile::Precision;
using profile::Source;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using yoke::testing::TempFolder;

/// Two blocks: a matrix product, and something that only moves bytes.
models::ModelCount small_model() {
  models::ModelCount model{.model = "small", .input_bytes = {0, 1000}, .blocks = {}};
  model.blocks.push_back(
      {.name = "product",
       .forward = {{.name = "mm", .kind = models::OpKind::kMatrix, .flops = {0, 72e9}}},
       .backward = {{.name = "mm", .kind = models::OpKind::kMatrix, .kernels = 2, .flops = {0, 144e9}}},
       .output_bytes = {0, 1e6},
       .activation_bytes = {0, 1e8},
       .parameter_bytes = {4e6, 4e3}});
  model.blocks.push_back({.name = "moves",
                          .forward = {{.name = "relu", .bytes = {8e8, 8e8}}},
                          .backward = {},
                          .output_bytes = {0, 2e6},
                          .activation_bytes = {0, 1e8},
                          .parameter_bytes = {}});
  return model;
}

const profile::DeviceSheet kDevice{.name = "toy",
                                   .type = "Toy 1000",
                                   .fp32_flops = 10e12,
                                   .half_flops = 40e12,
                                   .memory_bytes_per_s = 1e12,
                                   .memory_bytes = 6e9,
                                   .host_bytes_per_s = 1e10,
                                   .peer_bytes_per_s = 1e10};

TEST(Estimate, IsTheSumOfItsOps) {
  const auto sample = estimate_sample(small_model(), 2, 3, kDevice, Precision::kFp32);
  // A product of 144 GFLOP takes 20 ms, moving 2.4 GB takes 3 ms; three workers, and two kernels once.
  EXPECT_NEAR(sample.forward_ms, 3 * (20 + 3) + 2 * 0.03, 1e-9);
  EXPECT_NEAR(sample.backward_ms, 3 * 40 + 2 * 0.03, 1e-9);
  EXPECT_NEAR(sample.data_ms, 3 * 2 * 1000 / (0.3 * 1e10) * 1000, 1e-12);
  EXPECT_NEAR(sample.update_ms, 5 * 4.004e6 / 0.8e12 * 1000 + 2 * 0.03, 1e-9);
  // 6 GB less one, less the weights three times; a worker of 4 samples needs 1 GB.
  EXPECT_EQ(most_workers(small_model(), 4, kDevice, Precision::kFp32), 4);
  EXPECT_EQ(most_workers(small_model(), 4, kDevice, Precision::kHalf), 9);
}

TEST(Estimate, HasAllThatPlansNeedAndSaysWhatItIs) {
  const auto estimate = estimate_profile(small_model(), kDevice, {.node = "toy", .local_batch_sizes = {4, 8, 64}});
  ASSERT_TRUE(estimate.ok()) << estimate.error().to_string();
  EXPECT_EQ(estimate->node.source, Source::kEstimate);
  EXPECT_EQ(estimate->comm.source, Source::kEstimate);
  EXPECT_EQ(estimate->layers.source(), Source::kEstimate);
  EXPECT_EQ(estimate->layers.size(), 2);
  EXPECT_EQ(estimate->layers.edges().size(), 1U);
  EXPECT_TRUE(profile::validate(estimate->node).ok());
  std::vector<int> measured;
  for (const auto& sample : estimate->node.by_lbs.at(4).compute) measured.push_back(sample.vsw);
  EXPECT_THAT(measured, ::testing::ElementsAre(1, 2, 4));
  EXPECT_EQ(estimate->node.by_lbs.at(64).max_vsw, 0);
  EXPECT_TRUE(estimate->node.by_lbs.at(64).compute.empty());
  EXPECT_FALSE(estimate->buckets.mebibytes.empty());
  const auto none = estimate_profile(small_model(), kDevice, {.node = "toy", .local_batch_sizes = {64}});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, base::ErrorKind::kInfeasible);
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("64 samples"), HasSubstr("6.0 GB"), HasSubstr("smaller --lbs")));
}

TEST(Estimate, PlansSayThatTheyRestOnOne) {
  const TempFolder folder;
  const auto estimate = estimate_profile(small_model(), kDevice, {.node = "toy", .local_batch_sizes = {4}});
  ASSERT_TRUE(estimate.ok());
  profile::ProfileSet set{
      .model = "small", .nodes = {estimate->node}, .buckets = estimate->buckets, .comm = estimate->comm};
  ASSERT_TRUE(profile::save_profiles(folder.path(), set).ok());
  ASSERT_TRUE(profile::save_layers(folder.path(), estimate->layers).ok());
  // The bandwidth comes with the profile.
  const std::string cluster = folder.write("cluster.yaml", "nodes:\n- {name: toy, type: Toy 1000, devices: 2}\n");
  const std::vector<std::string> batch{"plan",        "batch", "--cluster", cluster, "--profiles",
                                       folder.path(), "--gbs", "32",        "--out", folder.file("plan.json")};
  const base::Document document = yoke_json(batch);
  base::Reader reader(document);
  EXPECT_EQ(reader.root().field("source").text(), "estimate");
  EXPECT_THAT(yoke(batch).out, HasSubstr("from estimates, not from measurements"));
  EXPECT_EQ(plan::load_plan(folder.file("plan.json"))->source, Source::kEstimate);
  EXPECT_THAT(yoke({"explain", folder.file("plan.json")}).out, HasSubstr("from estimates"));
  const std::vector<std::string> pipeline{"plan",      "pipeline", "--profile",   folder.path(),
                                          "--devices", "2",        "--bandwidth", "1e9"};
  const base::Document staged = yoke_json(pipeline);
  base::Reader stages(staged);
  EXPECT_EQ(stages.root().field("source").text(), "estimate");
  EXPECT_THAT(yoke(pipeline).out, HasSubstr("from estimates"));
  // What is priced anew, and what is taken as the plan says.
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"plan", "auto", "--cluster", cluster, "--profiles", folder.path(), "--gbs", "32", "--lbs", "4"},
           {"simulate", folder.file("plan.json"), "--cluster", cluster, "--profiles", folder.path()},
           {"simulate", folder.file("plan.json")}}) {
    const base::Document json = yoke_json(command);
    base::Reader told(json);
    EXPECT_EQ(told.root().field("source").text(), "estimate");
    EXPECT_THAT(yoke(command).out, HasSubstr("from estimates"));
  }
  const base::Document measured = yoke_json(example_batch("1024"));
  base::Reader real(measured);
  EXPECT_EQ(real.root().field("source").text(), "measured");
  auto exact = example_batch("1024");
  exact.insert(exact.end(), {"--out", folder.file("measured.json")});
  ASSERT_EQ(yoke(exact).code, 0);
  EXPECT_THAT(yoke({"simulate", folder.file("measured.json")}).out, Not(HasSubstr("estimates")));
}

TEST(ProfileEstimate, BadInputNamesTheOption) {
  const auto expect = [](std::vector<std::string> words, const std::string& message) {
    words.insert(words.begin(), {"profile", "estimate"});
    const Outcome outcome = yoke(words);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  expect({"--device", "p1000", "--model", "mlp"},
         "--device: found `p1000`, expected a device that is known, did you mean `p100`?");
  expect({"--device", "v100"}, "--model: found none");
  expect({"--device", "v100", "--model", "mlp", "--lbs", "8..4"}, "--lbs: found `8..4`");
  expect({"--device", "v100", "--model", "mlp", "--lbs", "0"}, "--lbs: found `0`");
  expect({"--device", "v100", "--model", "mlp", "--precision", "int8"}, "--precision: found `int8`, expected fp32");
  expect({"--device", "v100", "--model", "mlp", "--network", "fast"}, "--network: found `fast`");
  expect({"--device", "v100", "--model", "mlp", "--node", "a b"}, "--node: found `a b`");
  EXPECT_THAT(yoke({"profile", "estimate", "--device", "list"}).out,
              AllOf(HasSubstr("v100"), HasSubstr("H100-SXM5-80GB")));
  const base::Document document = yoke_json({"profile", "estimate", "--device", "list"});
  base::Reader reader(document);
  EXPECT_GE(reader.root().field("devices").items().size(), 20U);
}

TEST(ProfileEstimate, OfARealModel) {
  const TempFolder folder;
  const std::vector<std::string> words{"profile", "estimate", "--device", "p100",        "--model", "small_cnn",
                                       "--lbs",   "16..64",   "--out",    folder.path(), "--json"};
  const Outcome outcome = yoke(words);
  if (outcome.out.find("no libtorch") != std::string::npos) GTEST_SKIP() << "this build has no libtorch";
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const auto profiles = profile::load_profiles(folder.path());
  ASSERT_TRUE(profiles.ok()) << profiles.error().to_string();
  EXPECT_EQ(profiles->model, "small_cnn");
  EXPECT_EQ(profiles->nodes[0].by_lbs.size(), 3U);
  EXPECT_EQ(profiles->source(), Source::kEstimate);
  EXPECT_EQ(profile::load_layers(folder.path())->size(), 4);
  EXPECT_EQ(yoke(words).code, 0) << "an estimate may replace an estimate";
  // What was measured stays.
  profile::ProfileSet real = *profiles;
  real.nodes[0].source = Source::kMeasured;
  real.comm = {.intra = {{1, 2}}, .inter = {}};
  ASSERT_TRUE(profile::save_profiles(folder.path(), real).ok());
  const Outcome refused = yoke(words);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.out, HasSubstr("found a measured profile"));
  auto beside = words;
  beside.insert(beside.end(), {"--node", "other"});
  EXPECT_EQ(yoke(beside).code, 0);
  EXPECT_EQ(profile::load_comm(folder.path())->source, Source::kMeasured);
  auto unlike = words;
  *std::ranges::find(unlike, "small_cnn") = "mlp";
  unlike.insert(unlike.end(), {"--node", "third"});
  EXPECT_THAT(yoke(unlike).out, HasSubstr("found profiles of the model `small_cnn`, expected `mlp`"));
}

}  // namespace
}  // namespace yoke::cli
