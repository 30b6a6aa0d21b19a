#include "yoke/adapt/forecaster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "yoke/adapt/exponential_smoothing.h"
#include "yoke/adapt/gaussian_process.h"

namespace yoke::adapt {
namespace {

// Two points always lie on a line: they are not yet a trend.
constexpr std::size_t kFewestPoints = 3;

// A fitted period must lie in what the points can show, with time counted in decisions. A cycle was seen at least
// twice and is not shorter than two decisions. A trend's period is so long that its kernel is an ordinary smooth one.
// What lies between, a cycle seen once, fits any curve and then repeats it from its beginning.
constexpr double kShortestCycle = 2;
constexpr double kCyclesSeen = 2;
constexpr double kTrendPeriod = 1e4;  // times the span of the points

// Steps and samples beyond this are no training run. Sums of them are far from overflow and exact as doubles.
constexpr std::int64_t kLargestCount = 1'000'000'000'000'000;
constexpr std::int64_t kMostDecisions = 1'000'000;

base::Status check(std::span<const BatchPoint> history, const ForecastOptions& options) {
  YOKE_CHECK(validate(options.bounds));
  if (options.recent_points < static_cast<int>(kFewestPoints) || options.starts < 1) {
    return base::input_error(fmt::format("a forecast needs at least {} recent points and 1 start; found {} and {}",
                                         kFewestPoints, options.recent_points, options.starts));
  }
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (history[i].gbs < 1 || history[i].gbs > BatchBounds::kLargest) {
      return base::input_error(fmt::format("the batch at step {} must be from 1 to {}, found {}", history[i].step,
                                           BatchBounds::kLargest, history[i].gbs),
                               {.field = "history"});
    }
    if (history[i].step < 0 || history[i].step > kLargestCount) {
      return base::input_error(
          fmt::format("a step of the batch history must be from 0 to {}, found {}", kLargestCount, history[i].step),
          {.field = "history"});
    }
    if (i > 0 && history[i].step <= history[i - 1].step) {
      return base::input_error(fmt::format("the batch history must ascend in step; found step {} after {}",
                                           history[i].step, history[i - 1].step),
                               {.field = "history"});
    }
  }
  return {};
}

/// Steps between decisions: the median gap, so that a pause or a resumed run does not stretch the scale.
double usual_gap(std::span<const BatchPoint> points) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < points.size(); ++i) {
    gaps.push_back(static_cast<double>(points[i].step) - static_cast<double>(points[i - 1].step));
  }
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  return *middle;
}

/// The likelier of a trend and a cycle; equal ones go to the trend.
base::Result<GaussianProcess> fit_process(std::span<const double> x, std::span<const double> y,
                                          const ForecastOptions& options) {
  const auto fit = [&](const Interval& period) {
    const KernelBounds bounds{.period = period};
    return GaussianProcess::fit(x, y, bounds, restart_kernels(bounds, options.starts, options.seed));
  };
  const double span = x.back() - x.front();
  YOKE_TRY(GaussianProcess trend, fit({kTrendPeriod * span, kTrendPeriod * span}));
  const double longest_cycle = span / kCyclesSeen;
  if (longest_cycle < kShortestCycle) return trend;
  YOKE_TRY(GaussianProcess cycle, fit({kShortestCycle, longest_cycle}));
  return cycle.log_marginal_likelihood() > trend.log_marginal_likelihood() ? cycle : trend;
}

base::Result<std::vector<double>> continue_process(std::span<const BatchPoint> history,
                                                   std::span<const std::int64_t> steps,
                                                   const ForecastOptions& options) {
  const auto recent = history.last(std::min(history.size(), static_cast<std::size_t>(options.recent_points)));
  const double gap = usual_gap(recent);
  const auto origin = static_cast<double>(recent.front().step);
  const auto decisions = [&](std::int64_t step) { return (static_cast<double>(step) - origin) / gap; };

  std::vector<double> x, y;
  for (const BatchPoint& point : recent) {
    x.push_back(decisions(point.step));
    y.push_back(static_cast<double>(point.gbs));
  }
  YOKE_TRY(const GaussianProcess process, fit_process(x, y, options));
  std::vector<double> means;
  for (const std::int64_t step : steps) means.push_back(options.bounds.clamp(process.predict(decisions(step)).mean));
  return means;
}

base::Result<double> smoothed_level(std::span<const BatchPoint> history, const BatchBounds& bounds) {
  std::vector<double> values;
  for (const BatchPoint& point : history) values.push_back(static_cast<double>(point.gbs));
  YOKE_TRY(const ExponentialSmoothing smoothing, fit_exponential_smoothing(values));
  return bounds.clamp(smoothing.level);
}

}  // namespace

base::Result<Forecast> forecast(std::span<const BatchPoint> history, std::span<const std::int64_t> steps,
                                const ForecastOptions& options) {
  YOKE_CHECK(check(history, options));
  if (history.empty()) return base::input_error("a forecast needs at least one point of history; found none");
  if (history.size() < kFewestPoints) {
    const std::vector<double> flat(steps.size(), options.bounds.clamp(static_cast<double>(history.back().gbs)));
    return Forecast{.gbs = flat, .process = flat, .smoothing = flat};
  }
  Forecast result;
  YOKE_TRY(result.process, continue_process(history, steps, options));
  YOKE_TRY(const double level, smoothed_level(history, options.bounds));
  result.smoothing.assign(steps.size(), level);
  for (const double mean : result.process) result.gbs.push_back((mean + level) / 2);
  return result;
}

base::Result<std::vector<double>> forecast_epoch(std::span<const BatchPoint> history, const EpochStart& epoch,
                                                 const ForecastOptions& options) {
  const auto out_of_range = [](std::int64_t value, std::int64_t least) {
    return value < least || value > kLargestCount;
  };
  if (out_of_range(epoch.step, 0) || out_of_range(epoch.gbs, 1) || out_of_range(epoch.samples, 1) ||
      out_of_range(epoch.interval, 1)) {
    return base::input_error(fmt::format(
        "an epoch needs step >= 0 and gbs, samples and interval >= 1, all at most {}; found {}, {}, {} and {}",
        kLargestCount, epoch.step, epoch.gbs, epoch.samples, epoch.interval));
  }
  const std::int64_t decisions = epoch.samples / epoch.gbs / epoch.interval;
  if (decisions > kMostDecisions) {
    return base::input_error(
        fmt::format("an epoch of {} samples has {} batch decisions, at most {} are foreseen: "
                    "raise the interval ({}) or the batch ({})",
                    epoch.samples, decisions, kMostDecisions, epoch.interval, epoch.gbs));
  }
  std::vector<std::int64_t> steps;
  for (std::int64_t i = 1; i <= decisions; ++i) steps.push_back(epoch.step + i * epoch.interval);

  const BatchPoint present{.step = epoch.step, .gbs = epoch.gbs};
  YOKE_TRY(const Forecast coming, forecast(history.empty() ? std::span(&present, 1) : history, steps, options));
  std::vector<double> trajectory{options.bounds.clamp(static_cast<double>(epoch.gbs))};
  trajectory.insert(trajectory.end(), coming.gbs.begin(), coming.gbs.end());
  return trajectory;
}

}  // namespace yoke::adapt
