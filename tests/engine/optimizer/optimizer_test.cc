#include "yoke/engine/optimizer/optimizer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/engine/optimizer/flat.h"
#include "yoke/base/error.h"
#include "yoke/engine/optimizer/fused.h"
#include "yoke/engine/optimizer/kernels.h"
#include "yoke/engine/optimizer/whole.h"

namespace yoke::engine {
namespace {

using plan::OptimizerName;
using plan::OptimizerSpec;
using ::testing::Each;

/// Large enough for several threads; counts that are no multiples of anything.
const std::vector<FlatParameter> kParameters{{"conv.weight", 4, 90'001}, {"conv.bias", 1, 67},
                                             {"norm.weight", 1, 64},     {"norm.bias", 1, 5},
                                             {"head.weight", 2, 4'099},  {"head.bias", 1, 1}};

std::vector<std::pair<std::string, OptimizerSpec>> all_optimizers() {
  return {
      {"sgd", {.lr = 0.05, .momentum = 0, .weight_decay = 0.01}},
      {"momentum", {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01}},
      {"nesterov", {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}},
      {"adam", {.name = OptimizerName::kAdam, .lr = 0.01, .weight_decay = 0.1}},
      {"adamw", {.name = OptimizerName::kAdamW, .lr = 0.01, .weight_decay = 0.1}},
      {"lamb", {.name = OptimizerName::kLamb, .lr = 0.01, .weight_decay = 0.1}},
      {"lamb without decay", {.name = OptimizerName::kLamb, .lr = 0.01}},
  };
}

std::vector<float> normal(std::int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> values(0, 0.5);
  std::vector<float> result(static_cast<std::size_t>(count));
  for (auto& value : result) value = values(engine);
  return result;
}

using Maker = std::function<std::unique_ptr<Optimizer>(const OptimizerSpec&, std::vector<FlatBucket>)>;

struct Outcome {
  std::vector<float> weights;
  std::vector<float> state;  // of both buckets, gaps included
  std::vector<float> gaps;
};

Outcome train(const OptimizerSpec& spec, const Maker& make, int steps = 5) {
  FlatModel model(spec, kParameters);
  model.set_weights(normal(model.count(), 1).data());
  const auto optimizer = make(spec, model.buckets());
  for (int step = 1; step <= steps; ++step) {
    model.set_gradients(normal(model.count(), 100 + static_cast<unsigned>(step)).data(), 1);
    // Last bucket first: the order is free.
    for (const std::size_t bucket : {1, 0}) {
      optimizer->update(bucket, {.lr = spec.lr, .scale = 0.3, .clip_value = 0.2, .step = step});
    }
  }
  Outcome outcome{.weights = model.weights()};
  for (std::size_t bucket = 0; bucket < 2; ++bucket) {
    std::vector<torch::Tensor> tensors{model.buckets()[bucket].weights};
    for (const auto& [name, tensor] : optimizer->state(bucket)) {
      tensors.push_back(tensor);
      outcome.state.insert(outcome.state.end(), tensor.data_ptr<float>(), tensor.data_ptr<float>() + tensor.numel());
    }
    for (const auto& tensor : tensors) {
      const auto gaps = FlatModel::gaps(model.buckets()[bucket], tensor);
      outcome.gaps.insert(outcome.gaps.end(), gaps.begin(), gaps.end());
    }
  }
  return outcome;
}

Maker with_kernels(InstructionSet set) {
  return [set](const OptimizerSpec& spec, std::vector<FlatBucket> buckets) {
    return make_fused_optimizer(spec, std::move(buckets), kernels(set));
  };
}

/// Sets torch's threads for a test.
class Threads {
 public:
  explicit Threads(int threads) : before_(at::get_num_threads()) { at::set_num_threads(threads); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

TEST(Optimizer, ThreadsChangeNoBit) {
  for (const auto& [name, spec] : all_optimizers()) {
    SCOPED_TRACE(name);
    std::vector<Outcome> outcomes;
    for (const int threads : {1, 2}) {
      const Threads set(threads);
      outcomes.push_back(train(spec, make_optimizer));
    }
    EXPECT_TRUE(outcomes[0].weights == outcomes[1].weights);
    EXPECT_TRUE(outcomes[0].state == outcomes[1].state);
  }
}

TEST(Optimizer, InstructionSetsChangeNoBit) {
  if (!has(InstructionSet::kAvx2)) GTEST_SKIP() << "this machine has one instruction set only";
  for (const auto& [name, spec] : all_optimizers()) {
    SCOPED_TRACE(name);
    const auto plain = train(spec, with_kernels(InstructionSet::kBaseline));
    const auto wide = train(spec, with_kernels(InstructionSet::kAvx2));
    EXPECT_TRUE(plain.weights == wide.weights);
    EXPECT_TRUE(plain.state == wide.state);
  }
}

TEST(Optimizer, GapsStayZero) {
  for (const auto& [name, spec] : all_optimizers()) {
    SCOPED_TRACE(name);
    for (const Maker& make : {Maker(make_optimizer), Maker(make_whole_optimizer)}) {
      const auto outcome = train(spec, make);
      EXPECT_GE(outcome.gaps.size(), 100U);
      EXPECT_THAT(outcome.gaps, Each(0.0F));
    }
  }
}

/// Devices other than the CPU run torch's operations on whole buckets: the same formulas, rounded in other places.
TEST(Optimizer, WholeBucketsByTorchGiveTheSame) {
  for (const auto& [name, spec] : all_optimizers()) {
    SCOPED_TRACE(name);
    const auto fused = train(spec, make_optimizer);
    const auto whole = train(spec, make_whole_optimizer);
    ASSERT_EQ(fused.weights.size(), whole.weights.size());
    ASSERT_EQ(fused.state.size(), whole.state.size());
    for (std::size_t i = 0; i < fused.weights.size(); ++i) {
      ASSERT_NEAR(fused.weights[i], whole.weights[i], 1e-5 * std::abs(whole.weights[i]) + 1e-6) << i;
    }
    for (std::size_t i = 0; i < fused.state.size(); ++i) {
      ASSERT_NEAR(fused.state[i], whole.state[i], 1e-5 * std::abs(whole.state[i]) + 1e-7) << i;
    }
  }
}

TEST(Optimizer, StatesHaveNamesAndShareStorage) {
  const auto names = [](const OptimizerSpec& spec) {
    FlatModel model(spec, kParameters);
    std::vector<std::string> found;
    for (const Maker& make : {Maker(make_optimizer), Maker(make_whole_optimizer)}) {
      const auto optimizer = make(spec, model.buckets());
      for (const auto& [name, tensor] : optimizer->state(0)) {
        found.push_back(name);
        EXPECT_EQ(tensor.sizes(), model.buckets()[0].weights.sizes());
        EXPECT_EQ(tensor.abs().max().item<float>(), 0);
      }
    }
    return found;
  };
  EXPECT_THAT(names({.momentum = 0}), ::testing::ElementsAre());
  EXPECT_THAT(names({.momentum = 0.9}), ::testing::ElementsAre("momentum", "momentum"));
  for (const auto name : {OptimizerName::kAdam, OptimizerName::kAdamW, OptimizerName::kLamb}) {
    EXPECT_THAT(names({.name = name}), ::testing::ElementsAre("exp_avg", "exp_avg_sq", "exp_avg", "exp_avg_sq"));
  }
}

/// A checkpoint: the state is copied out and into another optimizer, which goes on as the first would have.
TEST(Optimizer, GoesOnFromCopiedState) {
  for (const auto& [name, spec] : all_optimizers()) {
    SCOPED_TRACE(name);
    FlatModel model(spec, kParameters);
    FlatModel copy(spec, kParameters);
    model.set_weights(normal(model.count(), 1).data());
    model.set_gradients(normal(model.count(), 2).data(), 1);
    copy.set_gradients(normal(model.count(), 2).data(), 1);
    const auto optimizer = make_optimizer(spec, model.buckets());
    const auto restored = make_optimizer(spec, copy.buckets());
    optimizer->update(0, {.lr = spec.lr, .step = 1});
    copy.buckets()[0].weights.copy_(model.buckets()[0].weights);
    for (std::size_t i = 0; i < optimizer->state(0).size(); ++i) {
      restored->state(0)[i].second.copy_(optimizer->state(0)[i].second);
    }
    optimizer->update(0, {.lr = spec.lr, .step = 2});
    restored->update(0, {.lr = spec.lr, .step = 2});
    EXPECT_TRUE(model.buckets()[0].weights.equal(copy.buckets()[0].weights));
  }
}

/// A gradient that is not a number must be seen, not clamped away.
TEST(Optimizer, BrokenGradientsShow) {
  for (const auto& [name, spec] : all_optimizers()) {
    SCOPED_TRACE(name);
    FlatModel model(spec, {{"a.weight", 2, 20}, {"b.weight", 2, 20}});
    model.buckets()[0].weights.fill_(1);
    model.buckets()[0].gradients[3] = std::numeric_limits<float>::quiet_NaN();
    make_optimizer(spec, model.buckets())->update(0, {.lr = 0.1, .clip_value = 1, .step = 1});
    EXPECT_TRUE(std::isnan(model.buckets()[0].weights[3].item<float>()));
  }
}

TEST(Optimizer, LambTrustsNoZeroNorm) {
  const OptimizerSpec spec{.name = OptimizerName::kLamb, .lr = 0.1};
  for (const Maker& make : {Maker(make_optimizer), Maker(make_whole_optimizer)}) {
    FlatModel model(spec, {{"a.weight", 2, 20}, {"b.weight", 2, 20}});  // weights are zero
    model.set_gradients(normal(40, 3).data(), 1);
    make(spec, model.buckets())->update(0, {.lr = 0.1, .step = 1});
    // Adam's first step: lr in the direction of the gradient.
    const auto expected = model.buckets()[0].gradients.sign() * -0.1;
    EXPECT_TRUE(torch::allclose(model.buckets()[0].weights, expected, 1e-4));
  }
}

TEST(Optimizer, DecayRules) {
  const OptimizerSpec spec;
  EXPECT_TRUE(decays(spec, "layer1.0.conv1.weight", 4));
  EXPECT_TRUE(decays(spec, "fc.weight", 2));
  EXPECT_FALSE(decays(spec, "fc.bias", 1));
  EXPECT_FALSE(decays(spec, "bias", 3));
  EXPECT_FALSE(decays(spec, "bn1.weight", 1));
  EXPECT_FALSE(decays(spec, "rnn.bias_hh_l0", 1));
  EXPECT_TRUE(decays(spec, "unbias", 2));
  EXPECT_TRUE(decays({.decay_all = true}, "fc.bias", 1));
}

TEST(Optimizer, RefusesBucketsThatAreNone) {
  const auto refuses = [](FlatBucket bucket) { EXPECT_THROW(make_optimizer({}, {std::move(bucket)}), base::Failure); };
  const auto flat = [] { return torch::zeros({32}); };
  refuses({.weights = flat(), .gradients = torch::zeros({16})});
  refuses({.weights = flat().to(torch::kFloat64), .gradients = flat()});
  refuses({.weights = flat().view({4, 8}), .gradients = flat()});
  refuses({.weights = flat()});
  refuses({.weights = flat(), .gradients = flat(), .segments = {{.name = "a", .begin = 20, .count = 20}}});
  refuses({.weights = flat(),
           .gradients = flat(),
           .segments = {{.name = "a", .begin = 0, .count = 20}, {.name = "b", .begin = 16, .count = 4}}});
  EXPECT_THROW(make_optimizer({.name = OptimizerName::kAdam}, {{.weights = flat(), .gradients = flat()}})
                   ->update(0, {.lr = 0.1, .step = 0}),
               base::Failure);
}

TEST(SquaredNorm, IsTheSumWhateverTheThreads) {
  for (const std::int64_t count : {0, 1, 15, 16, 4'095, 4'097, 200'003}) {
    const auto values = normal(count, 9);
    const auto tensor = torch::tensor(values);
    double expected = 0;
    for (const float value : values) expected += static_cast<double>(value) * value;
    std::vector<double> norms;
    for (const int threads : {1, 2}) {
      const Threads set(threads);
      norms.push_back(squared_norm(tensor));
    }
    norms.push_back(fused_squared_norm(tensor, kernels(InstructionSet::kBaseline)));
    EXPECT_NEAR(norms[0], expected, 1e-12 * expected);
    EXPECT_EQ(norms[1], norms[0]);
    EXPECT_EQ(norms[2], norms[0]);
    EXPECT_NEAR(whole_squared_norm(tensor), expected, 1e-12 * expected);
  }
}

TEST(ClippedScale, IsTorchs) {
  EXPECT_EQ(clipped_scale(0.25, 1e6, 0), 0.25);
  EXPECT_EQ(clipped_scale(0.25, 16, 1.1), 0.25);          // norm 1
  EXPECT_NEAR(clipped_scale(0.25, 1600, 2), 0.05, 1e-7);  // norm 10
  EXPECT_TRUE(std::isnan(clipped_scale(1, std::nan(""), 1)));
  EXPECT_EQ(clipped_scale(1, 0, 1), 1);
}

}  // namespace
}  // namespace yoke::engine
