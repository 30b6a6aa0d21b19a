#include "yoke/adapt/gaussian_process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/adapt/golden_forecasts.h"

namespace yoke::adapt {
namespace {

std::vector<double> steps_of(int count) {
  std::vector<double> x;
  for (int i = 1; i <= count; ++i) x.push_back(100.0 * i);
  return x;
}

std::vector<double> random_values(std::mt19937& generator, int count) {
  std::vector<double> y;
  for (int i = 0; i < count; ++i) y.push_back(static_cast<double>(64 * (1 + generator() % 100)));
  return y;
}

double worst_difference(const GaussianProcess& process, const golden::Case& data, const golden::Process& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < data.steps.size(); ++i) {
    const double mean = process.predict(static_cast<double>(data.steps[i])).mean;
    worst = std::max(worst, std::abs(mean / expected.predictions[i] - 1));
  }
  return worst;
}

TEST(GaussianProcess, EqualsTheRecordedPosteriorAtFixedKernels) {
  YOKE_SKIP_WITHOUT(golden::kForecasts);
  constexpr double kWellConditioned = 1e4;
  int well_conditioned = 0;
  for (const golden::Case& data : golden::read_cases()) {
    for (const golden::Process& expected : data.fixed) {
      SCOPED_TRACE(data.name + ", condition " + std::to_string(expected.condition_number));
      const auto process = GaussianProcess::condition(data.epoch_x, data.epoch_y, expected.kernel);
      ASSERT_TRUE(process.ok());
      const bool well = expected.condition_number < kWellConditioned;
      well_conditioned += well ? 1 : 0;
      // A near-singular problem is only as sharp as its condition number and rounding leave it.
      const double lost = 100 * expected.condition_number * std::numeric_limits<double>::epsilon();
      EXPECT_LT(worst_difference(*process, data, expected), well ? 1e-9 : 1e-9 + 10 * expected.sensitivity);
      EXPECT_NEAR(process->log_marginal_likelihood() / expected.log_likelihood, 1, well ? 1e-9 : lost);
    }
  }
  EXPECT_GE(well_conditioned, 24);
}

TEST(GaussianProcess, EqualsTheRecordedPosteriorAtTheOriginalsFittedKernels) {
  YOKE_SKIP_WITHOUT(golden::kForecasts);
  for (const golden::Case& data : golden::read_cases()) {
    for (const golden::Process& expected : data.fitted) {
      SCOPED_TRACE(data.name + ", period " + std::to_string(expected.kernel.period));
      const auto process = GaussianProcess::condition(data.epoch_x, data.epoch_y, expected.kernel);
      ASSERT_TRUE(process.ok());
      EXPECT_LT(worst_difference(*process, data, expected), 1e-9 + 10 * expected.sensitivity);
    }
  }
}

TEST(GaussianProcess, FitIsAtLeastAsLikelyAsTheOriginals) {
  YOKE_SKIP_WITHOUT(golden::kForecasts);
  const KernelBounds bounds;
  for (const golden::Case& data : golden::read_cases()) {
    SCOPED_TRACE(data.name);
    const auto fitted = GaussianProcess::fit(data.epoch_x, data.epoch_y, bounds, restart_kernels(bounds, 40, 1));
    ASSERT_TRUE(fitted.ok());
    for (const golden::Process& original : data.fitted) {
      EXPECT_GE(fitted->log_marginal_likelihood(), original.log_likelihood - 1e-3);
    }
  }
}

TEST(GaussianProcess, PassesThroughItsPointsAndIsUnsureBetweenThem) {
  const std::vector<double> x{0, 1, 2, 3.5}, y{10, 12, 9, 20};
  const auto process = GaussianProcess::condition(x, y, {.constant = 2, .length_scale = 0.3, .period = 50});
  ASSERT_TRUE(process.ok());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(process->predict(x[i]).mean, y[i], 1e-6);
    EXPECT_NEAR(process->predict(x[i]).deviation, 0, 1e-3);
  }
  EXPECT_GT(process->predict(2.75).deviation, 0.01);
  // Half a period away nothing is known: the prior's deviation, sqrt(constant) in units of the values'.
  EXPECT_NEAR(process->predict(26.5).deviation, std::sqrt(2.0) * 4.3229041164476456, 1e-6);
}

TEST(GaussianProcess, RepeatsWithItsPeriod) {
  const std::vector<double> x{0, 1, 2}, y{5, 7, 6};
  const auto process = GaussianProcess::condition(x, y, {.constant = 1, .length_scale = 1, .period = 4});
  ASSERT_TRUE(process.ok());
  EXPECT_NEAR(process->predict(0.4).mean, process->predict(40.4).mean, 1e-9);
}

TEST(GaussianProcess, GradientIsTheSlopeOfTheLikelihood) {
  std::mt19937 generator(3);
  for (int round = 0; round < 50; ++round) {
    const int count = 2 + static_cast<int>(generator() % 12);
    std::vector<double> x;
    for (int i = 0; i < count; ++i) x.push_back(i);
    const std::vector<double> y = random_values(generator, count);
    const double a = 0.3 + static_cast<double>(generator() % 100) / 50;
    const PeriodicKernel kernel{.constant = 1 + a, .length_scale = 0.2 * a, .period = 3.3 + a};
    const auto gradient = GaussianProcess::condition(x, y, kernel)->likelihood_gradient();
    const auto likelihood = [&](double PeriodicKernel::*parameter, double shift) {
      PeriodicKernel moved = kernel;
      moved.*parameter *= std::exp(shift);
      return GaussianProcess::condition(x, y, moved)->log_marginal_likelihood();
    };
    const std::array parameters{&PeriodicKernel::constant, &PeriodicKernel::length_scale, &PeriodicKernel::period};
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      constexpr double kShift = 1e-5;
      const double slope = (likelihood(parameters[i], kShift) - likelihood(parameters[i], -kShift)) / (2 * kShift);
      EXPECT_NEAR(gradient[i], slope, 1e-4 * (1 + std::abs(slope)));
    }
  }
}

TEST(GaussianProcess, IsFiniteForAnyKernelHoweverSingular) {
  std::mt19937 generator(5);
  const std::array sizes{1e-20, 1e-5, 1.0, 1e5, 1e20};
  for (const double constant : sizes) {
    for (const double length_scale : sizes) {
      for (const double period : sizes) {
        const auto process =
            GaussianProcess::condition(steps_of(20), random_values(generator, 20),
                                       {.constant = constant, .length_scale = length_scale, .period = period});
        ASSERT_TRUE(process.ok());
        EXPECT_TRUE(std::isfinite(process->log_marginal_likelihood()));
        for (const double slope : process->likelihood_gradient()) EXPECT_TRUE(std::isfinite(slope));
        for (const double x : {-1e6, 0.0, 150.0, 2100.0, 1e9}) {
          EXPECT_TRUE(std::isfinite(process->predict(x).mean));
          EXPECT_TRUE(std::isfinite(process->predict(x).deviation));
        }
      }
    }
  }
}

TEST(GaussianProcess, PointsAtTheSamePlaceAreAveraged) {
  const std::vector<double> x{1, 1, 2}, y{10, 20, 40};
  const auto process = GaussianProcess::condition(x, y, {.constant = 1, .length_scale = 0.1, .period = 100});
  ASSERT_TRUE(process.ok());
  EXPECT_NEAR(process->predict(1).mean, 15, 1e-3);
}

TEST(GaussianProcess, FitDoesNotDependOnTheOrderOfTheStarts) {
  std::mt19937 generator(11);
  const KernelBounds bounds;
  for (int round = 0; round < 10; ++round) {
    const std::vector<double> y = random_values(generator, 8);
    std::vector<PeriodicKernel> starts = restart_kernels(bounds, 8, generator());
    const auto in_order = GaussianProcess::fit(steps_of(8), y, bounds, starts);
    std::shuffle(starts.begin(), starts.end(), generator);
    const auto shuffled = GaussianProcess::fit(steps_of(8), y, bounds, starts);
    ASSERT_TRUE(in_order.ok() && shuffled.ok());
    EXPECT_EQ(in_order->kernel(), shuffled->kernel());
    EXPECT_EQ(in_order->predict(950).mean, shuffled->predict(950).mean);
  }
}

TEST(GaussianProcess, FitImprovesOnEveryStartAndKeepsTheBounds) {
  std::mt19937 generator(13);
  const KernelBounds bounds{.constant = {0.5, 20}, .length_scale = {0.05, 3}, .period = {2, 9}};
  for (int round = 0; round < 10; ++round) {
    const std::vector<double> y = random_values(generator, 10);
    const std::vector<PeriodicKernel> starts = restart_kernels(bounds, 6, generator());
    const auto fitted = GaussianProcess::fit(steps_of(10), y, bounds, starts);
    ASSERT_TRUE(fitted.ok());
    for (const PeriodicKernel& start : starts) {
      EXPECT_GE(fitted->log_marginal_likelihood(),
                GaussianProcess::condition(steps_of(10), y, start)->log_marginal_likelihood() - 1e-9);
    }
    const PeriodicKernel found = fitted->kernel();
    constexpr double kRounding = 1 + 1e-12;  // of exp(log(bound))
    EXPECT_TRUE(found.constant >= 0.5 / kRounding && found.constant <= 20 * kRounding);
    EXPECT_TRUE(found.length_scale >= 0.05 / kRounding && found.length_scale <= 3 * kRounding);
    EXPECT_TRUE(found.period >= 2 / kRounding && found.period <= 9 * kRounding);
  }
}

TEST(GaussianProcess, ScalingAndShiftingTheValuesScalesAndShiftsTheAnswer) {
  std::mt19937 generator(17);
  const PeriodicKernel kernel{.constant = 2, .length_scale = 0.15, .period = 9.37};
  for (int round = 0; round < 20; ++round) {
    const std::vector<double> y = random_values(generator, 12);
    std::vector<double> changed;
    for (const double value : y) changed.push_back(3 * value - 1000);
    const auto one = GaussianProcess::condition(steps_of(12), y, kernel);
    const auto other = GaussianProcess::condition(steps_of(12), changed, kernel);
    EXPECT_NEAR(other->log_marginal_likelihood(), one->log_marginal_likelihood(), 1e-9);
    EXPECT_NEAR(other->predict(1300).mean, 3 * one->predict(1300).mean - 1000, 1e-6);
    EXPECT_NEAR(other->predict(1300).deviation, 3 * one->predict(1300).deviation, 1e-6);
  }
}

TEST(GaussianProcess, RefusesWhatIsNoData) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> none, one{1}, two{1, 2}, with_nan{1, kNaN}, with_infinity{1, kInfinity};
  EXPECT_FALSE(GaussianProcess::condition(none, none, {}).ok());
  EXPECT_FALSE(GaussianProcess::condition(one, two, {}).ok());
  EXPECT_FALSE(GaussianProcess::condition(two, with_nan, {}).ok());
  EXPECT_FALSE(GaussianProcess::condition(with_infinity, two, {}).ok());
  EXPECT_FALSE(GaussianProcess::condition(two, two, {.constant = 0}).ok());
  EXPECT_FALSE(GaussianProcess::condition(two, two, {.period = kNaN}).ok());
  EXPECT_FALSE(GaussianProcess::fit(two, two, {}, {}).ok());
  EXPECT_FALSE(GaussianProcess::fit(two, two, {.period = {5, 1}}, restart_kernels({}, 2, 1)).ok());
  EXPECT_EQ(GaussianProcess::condition(none, none, {}).error().kind, base::ErrorKind::kInput);
}

TEST(RestartKernels, AreTheSameForTheSameSeedAndWithinTheBounds) {
  const KernelBounds bounds;
  EXPECT_EQ(restart_kernels(bounds, 9, 4), restart_kernels(bounds, 9, 4));
  EXPECT_NE(restart_kernels(bounds, 9, 4), restart_kernels(bounds, 9, 5));
  const std::vector<PeriodicKernel> kernels = restart_kernels(bounds, 200, 6);
  ASSERT_EQ(kernels.size(), 200u);
  EXPECT_EQ(kernels.front(), PeriodicKernel{});
  for (const PeriodicKernel& kernel : kernels) {
    EXPECT_TRUE(kernel.constant >= 1 && kernel.constant <= 1e6);
    EXPECT_TRUE(kernel.length_scale >= 1e-5 && kernel.length_scale <= 1e5);
    EXPECT_TRUE(kernel.period >= 0.01 && kernel.period <= 10);
  }
}

}  // namespace
}  // namespace yoke::adapt
