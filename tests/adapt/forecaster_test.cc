#include "yoke/adapt/forecaster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/adapt/golden_forecasts.h"
#include "tests/adapt/random_series.h"
#include "yoke/adapt/exponential_smoothing.h"

namespace yoke::adapt {
namespace {

std::vector<std::int64_t> steps_after(std::span<const BatchPoint> history, int count) {
  std::vector<std::int64_t> steps;
  for (int i = 1; i <= count; ++i) steps.push_back(history.back().step + 100 * i);
  return steps;
}

std::vector<double> batches(std::span<const BatchPoint> points) {
  std::vector<double> values;
  for (const BatchPoint& point : points) values.push_back(static_cast<double>(point.gbs));
  return values;
}

/// Over as many forecasts as the truth is known for.
double mean_absolute_error(std::span<const double> forecasts, std::span<const double> truth) {
  double sum = 0;
  const std::size_t count = std::min(forecasts.size(), truth.size());
  for (std::size_t i = 0; i < count; ++i) sum += std::abs(forecasts[i] - truth[i]);
  return sum / static_cast<double>(count);
}

// What really came after a recorded series: the longest other series that begins with it.
std::vector<double> continuation(const golden::Case& data, std::span<const golden::Case> cases) {
  std::vector<double> longest;
  for (const golden::Case& other : cases) {
    if (other.y.size() <= data.y.size() + longest.size()) continue;
    if (!std::equal(data.y.begin(), data.y.end(), other.y.begin())) continue;
    longest.assign(other.y.begin() + static_cast<std::ptrdiff_t>(data.y.size()), other.y.end());
  }
  return longest;
}

// The original's forecast depends on its random seed, so it is judged by its mean error over the recorded seeds.
TEST(Forecaster, IsAsGoodAsTheOriginalOnWhatReallyCameNext) {
  YOKE_SKIP_WITHOUT(golden::kForecasts);
  const std::vector<golden::Case> cases = golden::read_cases();
  int judged = 0;
  for (const golden::Case& data : cases) {
    const std::vector<double> truth = continuation(data, cases);
    if (truth.empty() || data.ensembles.empty()) continue;
    SCOPED_TRACE(data.name);
    double original = 0;
    for (const auto& ensemble : data.ensembles) original += mean_absolute_error(ensemble, truth);
    original /= static_cast<double>(data.ensembles.size());
    const auto ours = forecast(data.history, data.steps, {});
    ASSERT_TRUE(ours.ok());
    EXPECT_LE(mean_absolute_error(ours->gbs, truth), 1.01 * original);
    ++judged;
  }
  EXPECT_GE(judged, 4);
}

/// JABAS's procedure on the newest epoch: places in steps, its bounds, ten starts, average with smoothing.
std::vector<double> as_the_original(std::span<const BatchPoint> history, std::span<const std::int64_t> steps,
                                    const BatchBounds& limits, std::uint64_t seed) {
  std::vector<double> x;
  for (const BatchPoint& point : history) x.push_back(static_cast<double>(point.step));
  const KernelBounds bounds;
  const auto process = GaussianProcess::fit(x, batches(history), bounds, restart_kernels(bounds, 10, seed));
  const double level = fit_exponential_smoothing(batches(history))->level;
  std::vector<double> forecasts;
  for (const std::int64_t step : steps) {
    forecasts.push_back(limits.clamp((process->predict(static_cast<double>(step)).mean + level) / 2));
  }
  return forecasts;
}

TEST(Forecaster, IsBetterThanTheOriginalsProcedureOnHeldOutPointsOfRandomSeries) {
  std::mt19937 generator(21);
  const ForecastOptions options{.bounds = {.min = 64, .max = 8192}};
  double ours = 0, original = 0;
  for (const unsigned up : {0u, 3u, 5u, 7u, 10u}) {
    for (int round = 0; round < 6; ++round) {
      const std::vector<BatchPoint> series = random_series(generator, 18, up, options.bounds);
      const auto history = std::span(series).first(12);
      const std::vector<double> truth = batches(std::span(series).last(6));
      const std::vector<std::int64_t> steps = steps_after(history, 6);
      const auto scale = static_cast<double>(history.back().gbs);
      const auto found = forecast(history, steps, options);
      ASSERT_TRUE(found.ok());
      ours += mean_absolute_error(found->gbs, truth) / scale;
      original += mean_absolute_error(as_the_original(history, steps, options.bounds, generator()), truth) / scale;
    }
  }
  EXPECT_LT(ours, 0.8 * original);
}

TEST(Forecaster, ContinuesFewPointsFlat) {
  const std::vector<std::int64_t> steps{300, 400};
  const std::vector<BatchPoint> one{{100, 320}}, two{{100, 320}, {200, 384}};
  EXPECT_EQ(forecast(one, steps, {})->gbs, (std::vector<double>{320, 320}));
  EXPECT_EQ(forecast(two, steps, {})->gbs, (std::vector<double>{384, 384}));
  EXPECT_FALSE(forecast({}, steps, {}).ok());
}

TEST(Forecaster, ContinuesALineHalfWay) {
  const std::vector<BatchPoint> line{{100, 320}, {200, 384}, {300, 448}, {400, 512}, {500, 576}};
  const auto found = forecast(line, std::vector<std::int64_t>{600, 700}, {});
  ASSERT_TRUE(found.ok());
  EXPECT_NEAR(found->process[0], 640, 1);
  EXPECT_NEAR(found->process[1], 704, 1);
  EXPECT_NEAR(found->smoothing[0], 576, 1e-6);
  EXPECT_NEAR(found->gbs[1], 640, 1);
}

TEST(Forecaster, KeepsAConstantBatch) {
  std::vector<BatchPoint> history;
  for (int i = 1; i <= 30; ++i) history.push_back({100 * i, 512});
  const auto found = forecast(history, steps_after(history, 20), {});
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->gbs.size(), 20u);
  for (const double gbs : found->gbs) EXPECT_DOUBLE_EQ(gbs, 512);
}

TEST(Forecaster, SeesABatchThatGoesToAndFro) {
  std::vector<BatchPoint> history;
  for (int i = 1; i <= 9; ++i) history.push_back({100 * i, i % 2 == 0 ? 512 : 576});
  const auto found = forecast(history, steps_after(history, 2), {});
  ASSERT_TRUE(found.ok());
  EXPECT_NEAR(found->process[0], 512, 1);
  EXPECT_NEAR(found->process[1], 576, 1);
}

TEST(Forecaster, DoesNotDependOnTheIntervalBetweenDecisions) {
  std::mt19937 generator(8);
  for (int round = 0; round < 10; ++round) {
    const std::vector<BatchPoint> history = random_series(generator, 10, 6, {});
    std::vector<BatchPoint> rarer;
    for (const BatchPoint& point : history) rarer.push_back({.step = 5 * point.step + 7, .gbs = point.gbs});
    const auto one = forecast(history, std::vector<std::int64_t>{1100, 1200}, {});
    const auto other = forecast(rarer, std::vector<std::int64_t>{5507, 6007}, {});
    EXPECT_EQ(one->gbs, other->gbs);
  }
}

TEST(Forecaster, ScalesWithTheBatch) {
  std::mt19937 generator(9);
  for (int round = 0; round < 10; ++round) {
    const std::vector<BatchPoint> history = random_series(generator, 10, 6, {.min = 64, .max = 1'000'000});
    std::vector<BatchPoint> larger;
    for (const BatchPoint& point : history) larger.push_back({.step = point.step, .gbs = 8 * point.gbs});
    const std::vector<std::int64_t> steps = steps_after(history, 3);
    const auto one = forecast(history, steps, {});
    const auto other = forecast(larger, steps, {});
    // A power of two changes no digit, only exponents; the clamp at 1 sample is not reached.
    for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_DOUBLE_EQ(other->gbs[i], 8 * one->gbs[i]);
  }
}

TEST(Forecaster, IsFiniteWithinTheBoundsAndDeterministicForAnySeries) {
  std::mt19937 generator(10);
  for (int round = 0; round < 200; ++round) {
    const ForecastOptions options{.bounds = {.min = 256, .max = 4096},
                                  .recent_points = 3 + static_cast<int>(generator() % 10),
                                  .starts = 3,
                                  .seed = generator()};
    std::vector<BatchPoint> history;
    std::int64_t step = 0;
    const int count = 1 + static_cast<int>(generator() % 15);
    for (int i = 0; i < count; ++i) {
      // Unequal gaps and, now and then, batches far outside the bounds.
      step += 1 + static_cast<std::int64_t>(generator() % (round % 2 == 0 ? 100 : 1000000));
      const std::int64_t limit = generator() % 8 == 0 ? 1'000'000'000 : 4096;
      history.push_back({step, 1 + static_cast<std::int64_t>(generator()) % limit});
    }
    const std::vector<std::int64_t> steps{step + 1, step + 100, 10 * step + 5, 1'000'000'000'000, 0};
    const auto found = forecast(history, steps, options);
    ASSERT_TRUE(found.ok()) << found.error().to_string();
    ASSERT_EQ(found->gbs.size(), steps.size());
    for (const auto& values : {found->gbs, found->process, found->smoothing}) {
      for (const double gbs : values) EXPECT_TRUE(gbs >= 256 && gbs <= 4096) << gbs;
    }
    EXPECT_EQ(*found, *forecast(history, steps, options));
  }
}

TEST(Forecaster, RefusesHistoriesAndOptionsWithoutAMeaning) {
  const std::vector<std::int64_t> steps{500};
  const std::vector<BatchPoint> good{{100, 320}, {200, 384}, {300, 448}};
  const std::vector<BatchPoint> backwards{{200, 320}, {100, 384}}, twice{{100, 320}, {100, 384}}, empty_batch{{100, 0}};
  EXPECT_FALSE(forecast(backwards, steps, {}).ok());
  EXPECT_FALSE(forecast(twice, steps, {}).ok());
  EXPECT_FALSE(forecast(empty_batch, steps, {}).ok());
  const std::vector<BatchPoint> negative{{-1, 320}}, endless{{std::numeric_limits<std::int64_t>::max(), 320}};
  EXPECT_FALSE(forecast(negative, steps, {}).ok());
  EXPECT_FALSE(forecast(endless, steps, {}).ok());
  EXPECT_FALSE(forecast(good, steps, {.bounds = {.min = 9, .max = 8}}).ok());
  EXPECT_FALSE(forecast(good, steps, {.recent_points = 2}).ok());
  EXPECT_FALSE(forecast(good, steps, {.starts = 0}).ok());
  EXPECT_NE(forecast(backwards, steps, {}).error().message.find("step 100 after 200"), std::string::npos);
}

TEST(ForecastEpoch, HasThePresentBatchAndOneForecastPerDecision) {
  const std::vector<BatchPoint> history{{100, 320}, {200, 384}, {300, 448}};
  const ForecastOptions options{.bounds = {.min = 64, .max = 600}};
  const auto epoch = forecast_epoch(history, {.step = 350, .gbs = 448, .samples = 200000, .interval = 100}, options);
  ASSERT_TRUE(epoch.ok());
  ASSERT_EQ(epoch->size(), 5u);  // 446 steps have room for 4 decisions
  EXPECT_EQ(epoch->front(), 448);
  const auto same = forecast(history, std::vector<std::int64_t>{450, 550, 650, 750}, options);
  EXPECT_TRUE(std::equal(same->gbs.begin(), same->gbs.end(), epoch->begin() + 1));
}

TEST(ForecastEpoch, WithoutHistoryOrDecisionsTheBatchStays) {
  EXPECT_EQ(*forecast_epoch({}, {.step = 0, .gbs = 256, .samples = 60000, .interval = 100}, {}),
            (std::vector<double>{256, 256, 256}));
  const std::vector<BatchPoint> history{{100, 320}, {200, 384}, {300, 448}};
  EXPECT_EQ(*forecast_epoch(history, {.step = 350, .gbs = 448, .samples = 1000, .interval = 100}, {}),
            (std::vector<double>{448}));
}

TEST(ForecastEpoch, RefusesNumbersWithoutAMeaning) {
  EXPECT_FALSE(forecast_epoch({}, {.step = -1}, {}).ok());
  EXPECT_FALSE(forecast_epoch({}, {.gbs = 0}, {}).ok());
  EXPECT_FALSE(forecast_epoch({}, {.samples = 0}, {}).ok());
  EXPECT_FALSE(forecast_epoch({}, {.interval = 0}, {}).ok());
  EXPECT_FALSE(forecast_epoch({}, {.samples = 1'000'000'000'000, .interval = 1}, {}).ok());
}

}  // namespace
}  // namespace yoke::adapt
