#include "yoke/engine/optimizer/lr.h"

#include <gmock/gmock.h>

namespace yoke::engine {
namespace {

using plan::LrPolicy;
using plan::LrSpec;

double rate(const LrSpec& spec, const LrPosition& position) {
  return learning_rate(spec, 1.0, position);
}

TEST(LearningRate, StepwisePoliciesChangeBetweenEpochs) {
  for (const LrSpec& spec : {LrSpec{.policy = LrPolicy::kStep, .every = 2, .gamma = 0.5},
                             LrSpec{.policy = LrPolicy::kStep, .milestones = {2, 4}, .gamma = 0.5},
                             LrSpec{.policy = LrPolicy::kMultistep, .milestones = {2, 4}, .gamma = 0.5}}) {
    EXPECT_EQ(rate(spec, {.epoch = 0, .epochs = 6}), 1);
    EXPECT_EQ(rate(spec, {.epoch = 1.99, .epochs = 6}), 1);
    EXPECT_EQ(rate(spec, {.epoch = 2, .epochs = 6}), 0.5);
    EXPECT_EQ(rate(spec, {.epoch = 3.5, .epochs = 6}), 0.5);
    EXPECT_EQ(rate(spec, {.epoch = 4, .epochs = 6}), 0.25);
  }
  const LrSpec exponential{.policy = LrPolicy::kExponential, .gamma = 0.5};
  EXPECT_EQ(rate(exponential, {.epoch = 1.5, .epochs = 6}), 0.5);
  EXPECT_EQ(rate(exponential, {.epoch = 3, .epochs = 6}), 0.125);
}

TEST(LearningRate, SmoothPoliciesChangeWithEveryStepAndEnd) {
  const LrSpec cosine{.policy = LrPolicy::kCosine, .end = 0.2};
  EXPECT_DOUBLE_EQ(rate(cosine, {.epoch = 0, .epochs = 4}), 1);
  EXPECT_DOUBLE_EQ(rate(cosine, {.epoch = 2, .epochs = 4}), 0.6);
  EXPECT_LT(rate(cosine, {.epoch = 2.1, .epochs = 4}), 0.6);
  EXPECT_DOUBLE_EQ(rate(cosine, {.epoch = 4, .epochs = 4}), 0.2);
  EXPECT_DOUBLE_EQ(rate(cosine, {.epoch = 4.01, .epochs = 4}), 0.2);
  const LrSpec polynomial{.policy = LrPolicy::kPolynomial, .power = 2, .end = 0.2};
  EXPECT_DOUBLE_EQ(rate(polynomial, {.epoch = 2, .epochs = 4}), 0.2 + 0.8 * 0.25);
  EXPECT_DOUBLE_EQ(rate(polynomial, {.epoch = 4.01, .epochs = 4}), 0.2);
}

TEST(LearningRate, WarmUpLeadsToThePolicysRate) {
  const LrSpec from_zero{.warmup_steps = 4};
  EXPECT_EQ(rate(from_zero, {.step = 0}), 0);
  EXPECT_EQ(rate(from_zero, {.step = 1}), 0.25);
  EXPECT_EQ(rate(from_zero, {.step = 4}), 1);
  EXPECT_EQ(rate(from_zero, {.step = 400}), 1);
  const LrSpec beside_cosine{.policy = LrPolicy::kCosine, .warmup_steps = 4, .warmup_from = 0.5};
  const LrSpec cosine{.policy = LrPolicy::kCosine};
  const LrPosition position{.step = 2, .epoch = 1, .epochs = 4};
  EXPECT_DOUBLE_EQ(rate(beside_cosine, position), 0.75 * rate(cosine, position));
}

}  // namespace
}  // namespace yoke::engine
