#include "yoke/adapt/batch_policy.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace yoke::adapt {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr SimilarityPolicy kPolicy{.target = 0.1, .rate = 0.1, .bounds = {.min = 256, .max = 4096}};

TEST(BatchPolicy, GrowsBelowTheTargetAndShrinksAboveIt) {
  EXPECT_EQ(decide(kPolicy, 1000, 0.05), (BatchDecision{1100, BatchReason::kBelowTarget}));
  EXPECT_EQ(decide(kPolicy, 1000, 0.2), (BatchDecision{900, BatchReason::kAboveTarget}));
  EXPECT_EQ(decide(kPolicy, 1000, -1), (BatchDecision{1100, BatchReason::kBelowTarget}));
}

TEST(BatchPolicy, KeepsTheBatchOnTargetAndWithoutAMeasurement) {
  EXPECT_EQ(decide(kPolicy, 1000, 0.1), (BatchDecision{1000, BatchReason::kOnTarget}));
  EXPECT_EQ(decide(kPolicy, 1000, kNaN), (BatchDecision{1000, BatchReason::kNotMeasured}));
  EXPECT_EQ(decide(kPolicy, 1000, std::nullopt), (BatchDecision{1000, BatchReason::kNotMeasured}));
}

TEST(BatchPolicy, StopsAtTheBoundsAndSaysSo) {
  EXPECT_EQ(decide(kPolicy, 4000, 0), (BatchDecision{4096, BatchReason::kAtLargest}));
  EXPECT_EQ(decide(kPolicy, 4096, 0), (BatchDecision{4096, BatchReason::kAtLargest}));
  EXPECT_EQ(decide(kPolicy, 256, 1), (BatchDecision{256, BatchReason::kAtSmallest}));
  // A batch that is outside comes in, whatever was measured.
  EXPECT_EQ(decide(kPolicy, 64, 0), (BatchDecision{256, BatchReason::kAtSmallest}));
  EXPECT_EQ(decide(kPolicy, std::numeric_limits<std::int64_t>::max(), 0).gbs, 4096);
  EXPECT_EQ(decide(kPolicy, 64, kNaN).gbs, 256);
}

TEST(BatchPolicy, SmallBatchesAreNotStuckByRounding) {
  const SimilarityPolicy policy{.rate = 0.1};
  EXPECT_EQ(decide(policy, 1, 0).gbs, 2);
  EXPECT_EQ(decide(policy, 3, 0).gbs, 4);
  EXPECT_EQ(decide(policy, 3, 1).gbs, 2);
  EXPECT_EQ(decide(policy, 1, 1), (BatchDecision{1, BatchReason::kAtSmallest}));
}

TEST(BatchPolicy, IsAlwaysWithinTheBoundsAndMovesTheRightWay) {
  std::mt19937 generator(1);
  const auto draw = [&generator](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(generator);
  };
  for (int round = 0; round < 10000; ++round) {
    const std::int64_t min = draw(1, 1000);
    const SimilarityPolicy policy{.target = static_cast<double>(draw(-100, 100)) / 100,
                                  .rate = static_cast<double>(draw(1, 99)) / 100,
                                  .bounds = {.min = min, .max = draw(min, 100000)}};
    ASSERT_TRUE(validate(policy).ok());
    const std::int64_t gbs = draw(min, policy.bounds.max);
    const double similarity = static_cast<double>(draw(-1000, 1000)) / 1000;
    const BatchDecision decision = decide(policy, gbs, similarity);
    EXPECT_EQ(decision.gbs, policy.bounds.clamp(decision.gbs));
    EXPECT_EQ(decision.gbs > gbs, similarity < policy.target && gbs < policy.bounds.max);
    EXPECT_EQ(decision.gbs<gbs, similarity> policy.target && gbs > policy.bounds.min);
  }
}

TEST(BatchPolicy, RefusesSettingsWithoutAMeaning) {
  EXPECT_TRUE(validate(kPolicy).ok());
  EXPECT_FALSE(validate(SimilarityPolicy{.target = 1.5}).ok());
  EXPECT_FALSE(validate(SimilarityPolicy{.target = kNaN}).ok());
  EXPECT_FALSE(validate(SimilarityPolicy{.rate = 0}).ok());
  EXPECT_FALSE(validate(SimilarityPolicy{.rate = 1}).ok());
  EXPECT_FALSE(validate(SimilarityPolicy{.rate = kNaN}).ok());
  EXPECT_FALSE(validate(BatchBounds{.min = 0}).ok());
  EXPECT_FALSE(validate(BatchBounds{.min = 10, .max = 9}).ok());
  EXPECT_FALSE(validate(BatchBounds{.max = BatchBounds::kLargest + 1}).ok());
  EXPECT_THROW(decide(kPolicy, 0, 0.5), base::Failure);
}

}  // namespace
}  // namespace yoke::adapt
