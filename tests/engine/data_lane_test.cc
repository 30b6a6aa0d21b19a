// What workers that run at once on a device share, and what goes on beside them.
#include "yoke/engine/data_lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "tests/engine/ranks.h"
#include "yoke/tensor/memory.h"

namespace yoke::engine::testing {
namespace {

constexpr int kLayers = 16;
constexpr int kSide = 256;

void add_model(const std::string& name, const std::vector<models::BlockSpec>& blocks) {
  const auto loss = models::make_model("mlp", {}).value().loss;
  const auto made = models::register_model(
      {.name = name, .summary = "of a test", .make = [=](const models::ModelOptions&) {
         return base::Result<models::Architecture>(models::Architecture{.name = name, .blocks = blocks, .loss = loss});
       }});
  ASSERT_TRUE(made.ok()) << made.error().to_string();
}

models::BlockSpec block(const std::string& name, std::function<std::shared_ptr<models::Block>()> make) {
  return {.name = name, .prefix = name, .make = std::move(make)};
}

struct Linear : models::Block {
  Linear(int inputs, int outputs) : layer(register_module("layer", torch::nn::Linear(inputs, outputs))) {}
  void forward(models::Flow& flow, const models::Pass&) override {
    flow.set("x", torch::tanh(layer(flow.at("x").flatten(1))));
  }
  torch::nn::Linear layer;
};

TEST(DataLane, AtTheHighestPointWorkersShareWeightsGradientsAndState) {
  tensor::use_metered_cpu_memory();
  // Many equal layers: one that a worker kept of its own for each would be far more than one gradient on its way.
  std::vector<models::BlockSpec> blocks;
  for (int i = 0; i < kLayers; ++i) {
    blocks.push_back(block("l" + std::to_string(i), [] { return std::make_shared<Linear>(kSide, kSide); }));
  }
  add_model("stack", blocks);
  TestJob what;
  what.model = "stack";
  what.input = {1, 16, 16};
  what.meet = true;  // all activations at one moment
  struct Use {
    std::int64_t state = 0;
    std::int64_t passes = 0;  // what a step takes beyond what stays
  };
  const auto use_with = [&](int vsw) {
    const auto before = tensor::cpu_memory().bytes;
    Rank own = make_rank(what, 0);
    const auto store = comm::make_memory_store();
    EXPECT_TRUE(own.trainer->configure(plan_of({{vsw, 0}}, 2), join_ranks(*store, "g", 0, 1), devices(1)).ok());
    EXPECT_TRUE(own.trainer->step().ok());
    const auto rest = tensor::cpu_memory().bytes - before;
    const auto state = own.trainer->state_bytes().total();
    EXPECT_LT(rest, state + state / 20);
    tensor::reset_peak_cpu_memory();
    EXPECT_TRUE(own.trainer->step().ok());
    return Use{.state = state, .passes = tensor::cpu_memory().peak_bytes - before - state};
  };
  const Use one = use_with(1);
  const Use four = use_with(4);
  const std::int64_t weights = one.state / 3;
  EXPECT_EQ(one.state, four.state);
  EXPECT_GT(one.passes, 0);
  EXPECT_LT(one.passes, weights / 3) << "a set of weights or gradients of its own would be more";
  EXPECT_LT(four.passes, 5 * one.passes) << "four times the activations, and one set of all else";
}

/// Looks, in the middle of the backward pass, for an update of the last block's weights.
struct Probe {
  std::mutex mutex;
  torch::Tensor weight;  // of the last block, sharing storage
  torch::Tensor before;
  base::Duration patience{};
  std::atomic<int> looked = 0;
  std::atomic<int> seen = 0;

  void note(const torch::Tensor& last) {
    const std::lock_guard lock(mutex);
    weight = last.detach();
    before = weight.clone();
  }
  bool changed() {
    const std::lock_guard lock(mutex);
    return !torch::equal(weight, before);
  }
  void look() {
    const auto by = base::Deadline::in(patience, test_clock());
    while (!changed() && !by.passed(test_clock())) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++looked;
    if (changed()) ++seen;
  }
};

TEST(DataLane, OverlapUpdatesABucketBeforeTheBackwardPassEnds) {
  static Probe probe;  // registered models live as long as the process
  struct First final : Linear {
    using Linear::Linear;
    void forward(models::Flow& flow, const models::Pass& pass) override {
      Linear::forward(flow, pass);
      if (pass.training) flow.at("x").register_hook([](const torch::Tensor&) { probe.look(); });
    }
  };
  struct Last final : Linear {
    using Linear::Linear;
    void forward(models::Flow& flow, const models::Pass& pass) override {
      if (pass.training) probe.note(layer->weight);
      Linear::forward(flow, pass);
    }
  };
  // The last block fills the first bucket, which is 1 MiB.
  add_model("watched", {block("first", [] { return std::make_shared<First>(36, 512); }),
                        block("last", [] { return std::make_shared<Last>(512, 600); })});
  TestJob what;
  what.model = "watched";
  const auto step_with = [&](plan::Sync sync, base::Duration patience) {
    probe.patience = patience;
    probe.looked = 0;
    probe.seen = 0;
    Rank own = make_rank(what, 0);
    EXPECT_EQ(own.trainer->bucket_mebibytes().size(), 2U);
    const auto store = comm::make_memory_store();
    EXPECT_TRUE(own.trainer->configure(plan_of({{2, 0}}, 4, sync), join_ranks(*store, "g", 0, 1), devices(1)).ok());
    const auto report = own.trainer->step();
    ASSERT_TRUE(report.ok()) << report.error().to_string();
    EXPECT_EQ(probe.looked, 2) << "both workers";
    EXPECT_TRUE(probe.changed()) << "at the end it is updated in any case";
  };
  step_with(plan::Sync::kOverlap, std::chrono::seconds(30));
  EXPECT_EQ(probe.seen, 2);
  step_with(plan::Sync::kSequential, std::chrono::milliseconds(50));
  EXPECT_EQ(probe.seen, 0);
}

}  // namespace
}  // namespace yoke::engine::testing
