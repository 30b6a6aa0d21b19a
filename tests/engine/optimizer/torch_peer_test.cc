// Optimizers and learning-rate policies against torch's own (Debian's python3-torch), on the same gradients.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/engine/optimizer/flat.h"
#include "tests/support/files.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "yoke/engine/optimizer/kernels.h"
#include "yoke/engine/optimizer/lr.h"
#include "yoke/engine/optimizer/optimizer.h"

namespace yoke::engine {
namespace {

constexpr int kSteps = 50;
/// Gradients are given as sums over so many workers.
constexpr float kWorkers = 4;
/// How the script ends without torch, and a Process without its program.
constexpr int kNoTorch = 77;
constexpr int kNoPython = 127;

std::vector<float> read_floats(const std::string& path) {
  const std::string bytes = testing::read_text(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

struct Case {
  std::string name;
  plan::OptimizerSpec spec;
  /// torch adds the squares of a norm in another order, and LAMB's peer is in double precision: bits may differ.
  bool same_operations = true;
};

std::vector<Case> cases() {
  using plan::OptimizerName;
  using plan::OptimizerSpec;
  const OptimizerSpec sgd{.lr = 0.05, .momentum = 0};
  const OptimizerSpec momentum{.lr = 0.05, .momentum = 0.9};
  const OptimizerSpec adam{.name = OptimizerName::kAdam, .lr = 0.003};
  const OptimizerSpec adamw{.name = OptimizerName::kAdamW, .lr = 0.003, .weight_decay = 0.1};
  const auto changed = [](OptimizerSpec spec, const auto& change) {
    change(spec);
    return spec;
  };
  const auto decay = [](auto& spec) { spec.weight_decay = 0.01; };
  return {
      {"sgd", sgd},
      {"sgd_decay", changed(sgd, decay)},
      {"sgd_momentum", momentum},
      {"sgd_momentum_decay", changed(momentum, decay)},
      {"sgd_decay_all", changed(changed(momentum, decay), [](auto& spec) { spec.decay_all = true; })},
      {"sgd_nesterov", changed(changed(momentum, decay), [](auto& spec) { spec.nesterov = true; })},
      {"sgd_clip_value", changed(momentum, [](auto& spec) { spec.clip_value = 0.5; })},
      {"sgd_clip_norm", changed(momentum, [](auto& spec) { spec.clip_norm = 20; }), false},
      {"adam", adam},
      {"adam_decay", changed(adam,
                             [](auto& spec) {
                               spec.beta1 = 0.8;
                               spec.beta2 = 0.99;
                               spec.eps = 1e-6;
                               spec.weight_decay = 0.1;
                             })},
      {"adam_clip_norm", changed(adam, [](auto& spec) { spec.clip_norm = 20; }), false},
      {"adamw", adamw},
      {"adamw_clip_value", changed(adamw, [](auto& spec) { spec.clip_value = 0.5; })},
      {"lamb", {.name = OptimizerName::kLamb, .lr = 0.01, .weight_decay = 0.1, .eps = 1e-6}, false},
  };
}

/// How far two vectors are apart where they are furthest, as a multiple of what is allowed: `relative` of the element,
/// and for elements near zero, which carry the rounding of what cancelled in them, a tenth of that of the typical one.
double excess(const std::vector<float>& ours, const float* theirs, double relative) {
  double squares = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) squares += static_cast<double>(theirs[i]) * theirs[i];
  const double typical = std::sqrt(squares / static_cast<double>(ours.size()));
  double worst = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double allowed = relative * (std::abs(static_cast<double>(theirs[i])) + 0.1 * typical);
    const double apart = std::abs(static_cast<double>(ours[i]) - theirs[i]) / allowed;
    if (!(apart <= worst)) worst = apart;  // NaN is worst
  }
  return worst;
}

/// Runs the script once for all tests of the process.
class TorchPeer : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TempFolder;
    testing::Process script({"/usr/bin/python3",
                             std::string(yoke::testing::kSourceDir) + "/tests/engine/optimizer/torch_peer.py",
                             folder_->path()});
    ASSERT_TRUE(script.wait(std::chrono::seconds(240)));
    absent_ = script.exit_code() == kNoTorch || script.exit_code() == kNoPython;
    ASSERT_TRUE(absent_ || script.exit_code() == 0) << script.output();
  }
  static void TearDownTestSuite() { delete folder_; }
  void SetUp() override {
    if (absent_) GTEST_SKIP() << "no python3-torch for /usr/bin/python3";
  }

  static std::string file(const std::string& name) { return folder_->file(name); }

  static std::vector<FlatParameter> parameters() {
    std::istringstream lines(testing::read_text(file("parameters.txt")));
    std::vector<FlatParameter> parameters;
    for (FlatParameter p; lines >> p.name >> p.dimensions >> p.count;) parameters.push_back(p);
    return parameters;
  }

 private:
  static inline testing::TempFolder* folder_ = nullptr;
  static inline bool absent_ = false;
};

TEST_F(TorchPeer, OptimizersAgreeOver50Steps) {
  const auto first = read_floats(file("weights.bin"));
  const auto gradients = read_floats(file("gradients.bin"));
  // torch 1.13 on a CPU with AVX2 rounds as our loops do; later versions compute Adam's first moment in another way.
  const bool torch_rounds_alike =
      testing::read_text(file("torch.txt")).starts_with("1.13") && has(InstructionSet::kAvx2);
  for (const auto& one : cases()) {
    SCOPED_TRACE(one.name);
    const auto expected = read_floats(file(one.name + ".bin"));
    FlatModel model(one.spec, parameters());
    const auto count = static_cast<std::size_t>(model.count());
    ASSERT_EQ(first.size(), count);
    ASSERT_EQ(gradients.size(), kSteps * count);
    model.set_weights(first.data());
    const auto optimizer = make_optimizer(one.spec, model.buckets());
    ASSERT_EQ(expected.size(), (kSteps + optimizer->state(0).size()) * count);
    for (int step = 0; step < kSteps; ++step) {
      model.set_gradients(gradients.data() + static_cast<std::size_t>(step) * count, kWorkers);
      double squares = 0;
      for (const auto& bucket : model.buckets()) squares += squared_norm(bucket.gradients);
      const Update update{.lr = one.spec.lr,
                          .scale = clipped_scale(1.0 / kWorkers, squares, one.spec.clip_norm),
                          .clip_value = one.spec.clip_value,
                          .step = step + 1};
      for (std::size_t bucket = 0; bucket < 2; ++bucket) optimizer->update(bucket, update);
      const float* theirs = expected.data() + static_cast<std::size_t>(step) * count;
      ASSERT_LE(excess(model.weights(), theirs, 1e-5), 1) << "weights after step " << step + 1;
      if (torch_rounds_alike && one.same_operations) {
        ASSERT_EQ(std::memcmp(model.weights().data(), theirs, count * sizeof(float)), 0)
            << "weights after step " << step + 1 << " differ in their bits";
      }
    }
    const auto names = optimizer->state(0).size();
    for (std::size_t i = 0; i < names; ++i) {
      const auto state = model.gather({optimizer->state(0)[i].second, optimizer->state(1)[i].second});
      // State is compared like the weights: it is a sum of gradients of both signs, so its elements may be near zero.
      EXPECT_LE(excess(state, expected.data() + (kSteps + i) * count, 1e-5), 1) << optimizer->state(0)[i].first;
    }
  }
}

TEST_F(TorchPeer, LearningRatesAgree) {
  std::map<std::string, std::vector<double>> expected;
  std::istringstream lines(testing::read_text(file("rates.txt")));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (double rate = 0; words >> rate;) expected[name].push_back(rate);
  }
  using plan::LrPolicy;
  const std::map<std::string, plan::LrSpec> specs{
      {"constant", {}},
      {"step", {.policy = LrPolicy::kStep, .every = 6, .gamma = 0.3}},
      {"multistep", {.policy = LrPolicy::kMultistep, .milestones = {3, 9, 15}, .gamma = 0.3}},
      {"exponential", {.policy = LrPolicy::kExponential, .gamma = 0.9}},
      {"cosine", {.policy = LrPolicy::kCosine, .end = 0.02}},
      {"polynomial", {.policy = LrPolicy::kPolynomial, .power = 2}},
      {"warmup", {.warmup_steps = 7, .warmup_from = 0.1}},
  };
  ASSERT_EQ(expected.size(), specs.size());
  for (const auto& [name, spec] : specs) {
    const auto& rates = expected.at(name);
    ASSERT_EQ(rates.size(), 20U);
    for (std::size_t epoch = 0; epoch < rates.size(); ++epoch) {
      const LrPosition position{
          .step = static_cast<std::int64_t>(epoch), .epoch = static_cast<double>(epoch), .epochs = 20};
      // torch multiplies the last rate by a factor at each step; ours is a closed form.
      EXPECT_NEAR(learning_rate(spec, 0.4, position), rates[epoch], 1e-12) << name << ", epoch " << epoch;
    }
  }
}

}  // namespace
}  // namespace yoke::engine
