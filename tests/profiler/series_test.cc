#include "yoke/profiler/series.h"

#include <gtest/gtest.h>

#include <cmath>

namespace yoke::profiler {
namespace {

Series of(const std::vector<double>& values) {
  Series series;
  for (const double value : values) series.add(value);
  return series;
}

TEST(Series, OneSlowStepMovesNeitherMedianNorSpread) {
  const Series quiet = of({10, 10.1, 9.9, 10, 10.1, 9.9, 10});
  const Series disturbed = of({10, 10.1, 9.9, 10, 10.1, 9.9, 500});
  EXPECT_DOUBLE_EQ(quiet.median(), 10);
  EXPECT_NEAR(disturbed.median(), quiet.median(), 0.11);
  EXPECT_LT(quiet.spread(), 0.02);
  EXPECT_LT(disturbed.spread(), 0.02);
  EXPECT_FALSE(disturbed.confidence(0.05).noisy);
  EXPECT_EQ(disturbed.confidence(0.05).count, 7);
}

TEST(Series, NoiseIsCalledNoise) {
  const Series wild = of({10, 20, 5, 30, 12});
  EXPECT_TRUE(wild.confidence(0.05).noisy);
  EXPECT_GT(wild.confidence(0.05).spread, 0.3);
  EXPECT_TRUE(of({10, 10}).confidence(0.05).noisy) << "two values tell nothing of their spread";
  EXPECT_TRUE(std::isfinite(of({10, 10}).confidence(0.05).spread)) << "profiles hold numbers";
}

TEST(Series, TheIntervalCoversTheMedianAboutAsOftenAsItSays) {
  int covered = 0;
  constexpr int kTrials = 400;
  unsigned state = 1;
  const auto uniform = [&] { return (state = state * 1664525U + 1013904223U) / 4294967296.0; };
  for (int trial = 0; trial < kTrials; ++trial) {
    Series series;
    for (int i = 0; i < 15; ++i) {
      // The sum of twelve uniform numbers is as good as normal.
      double sum = 0;
      for (int k = 0; k < 12; ++k) sum += uniform();
      series.add(100 + 5 * (sum - 6));
    }
    if (std::abs(series.median() - 100) <= series.spread() * series.median()) ++covered;
  }
  EXPECT_GT(covered, kTrials * 0.85);
  EXPECT_LT(covered, kTrials);
}

TEST(Series, OfSeveralVisitsTheMiddleOneCounts) {
  const auto visit = [](double ms, int count) {
    return Visit{.ms = ms, .confidence = {.spread = 0.001, .count = count}};
  };
  const auto alone = typical_visit({visit(10, 4)}, 0.05);
  EXPECT_EQ(alone.visit, 0U);
  EXPECT_EQ(alone.confidence, (profile::Confidence{.spread = 0.001, .count = 4, .visits = 1}));
  const auto two = typical_visit({visit(20, 4), visit(10, 3)}, 0.05);
  EXPECT_EQ(two.visit, 1U) << "what disturbs makes slower";
  EXPECT_TRUE(two.confidence.noisy) << "each of them was steady, and they do not agree";
  EXPECT_EQ(two.confidence.visits, 2);
  const auto three = typical_visit({visit(10.2, 4), visit(9.9, 3), visit(10, 1)}, 0.05);
  EXPECT_EQ(three.visit, 2U);
  EXPECT_EQ(three.confidence.count, 8);
  EXPECT_EQ(three.confidence.visits, 3);
  EXPECT_NEAR(three.confidence.spread, 0.015, 1e-9);
  EXPECT_FALSE(three.confidence.noisy);
}

TEST(Series, FewStepsAreNoisyHoweverWellTheyAgree) {
  const auto visits = [](int count) {
    return std::vector(static_cast<std::size_t>(count), Visit{.ms = 10, .confidence = {.spread = 1, .count = 1}});
  };
  EXPECT_TRUE(typical_visit(visits(2), 0.05).confidence.noisy);
  EXPECT_FALSE(typical_visit(visits(3), 0.05).confidence.noisy);
}

TEST(Series, OfManyVisitsTheEndsDoNotCount) {
  const auto visits = [](const std::vector<double>& times) {
    std::vector<Visit> all;
    for (const double ms : times) all.push_back({.ms = ms, .confidence = {.spread = 0.001, .count = 5}});
    return all;
  };
  const auto five = typical_visit(visits({10, 10, 14, 10, 10}), 0.05);
  EXPECT_NEAR(five.confidence.spread, 0.2, 1e-9) << "without its ends, five hold the median less surely than three";
  const auto six = typical_visit(visits({10, 10, 14, 10, 9.9, 10.2}), 0.05);
  EXPECT_NEAR(six.confidence.spread, 0.01, 1e-9);
  EXPECT_FALSE(six.confidence.noisy);
  EXPECT_TRUE(typical_visit(visits({10, 10, 14, 10, 9.9, 13}), 0.05).confidence.noisy) << "two of six are no accident";
}

TEST(Series, MeasuringStopsWhenTheIntervalIsTightOrTheTimeIsUp) {
  const Patience patience{.seconds = 1, .tight = 0.02, .least = 3, .least_tight = 5, .most = 8};
  EXPECT_FALSE(patience.enough(of({1, 1}), 100)) << "a few values, whatever it takes";
  EXPECT_TRUE(patience.enough(of({1, 2, 3}), 1.1));
  EXPECT_FALSE(patience.enough(of({1, 1, 1}), 0.1)) << "few may agree by chance";
  EXPECT_TRUE(patience.enough(of({1, 1, 1, 1, 1}), 0.1));
  EXPECT_FALSE((Patience{.least_seconds = 0.2}.enough(of({1, 1, 1, 1, 1}), 0.1))) << "a moment alone";
  EXPECT_FALSE(patience.enough(of({1, 2, 3, 4, 5}), 0.1));
  EXPECT_TRUE(patience.enough(of({1, 2, 3, 4, 5, 6, 7, 8}), 0.1));
}

}  // namespace
}  // namespace yoke::profiler
