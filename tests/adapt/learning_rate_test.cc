#include "yoke/adapt/learning_rate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/adapt/golden_forecasts.h"

namespace yoke::adapt {
namespace {

TEST(LearningRate, FactorsFollowTheirRule) {
  EXPECT_EQ(learning_rate_factor(LearningRateRule::kSqrt, 1024, 256), 2);
  EXPECT_EQ(learning_rate_factor(LearningRateRule::kLinear, 1024, 256), 4);
  EXPECT_EQ(learning_rate_factor(LearningRateRule::kNone, 1024, 256), 1);
  EXPECT_EQ(learning_rate_factor(LearningRateRule::kLinear, 128, 256), 0.5);
  EXPECT_THROW(learning_rate_factor(LearningRateRule::kSqrt, 0, 256), base::Failure);
  EXPECT_THROW(learning_rate_factor(LearningRateRule::kSqrt, 256, 0), base::Failure);
}

TEST(LearningRate, SqrtRuleEqualsTheRecordedFactors) {
  YOKE_SKIP_WITHOUT(golden::kTrainer);
  const base::Document document = base::load_document(golden::kTrainer).value();
  base::Reader reader(document);
  int compared = 0;
  for (base::View row : reader.root().field("trainer_calls").field("lr_scale").items()) {
    // Which batch JABAS takes as the base depends on its mode.
    const std::int64_t lower = row.field("lower").integer();
    const std::int64_t base_gbs =
        row.field("elastic").boolean() ? lower : std::max(lower, row.field("original").integer());
    const double factor = learning_rate_factor(LearningRateRule::kSqrt, row.field("gbs").integer(), base_gbs);
    EXPECT_DOUBLE_EQ(factor, row.field("factor").number());
    ++compared;
  }
  ASSERT_TRUE(reader.ok()) << reader.error().to_string();
  EXPECT_GT(compared, 30);
}

TEST(LearningRate, NamesGoBothWays) {
  for (const auto rule : {LearningRateRule::kSqrt, LearningRateRule::kLinear, LearningRateRule::kNone}) {
    const auto parsed = parse_learning_rate_rule(to_string(rule));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, rule);
  }
  const auto unknown = parse_learning_rate_rule("cubic");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, base::ErrorKind::kInput);
  EXPECT_NE(unknown.error().message.find("`cubic`"), std::string::npos);
}

}  // namespace
}  // namespace yoke::adapt
