#include "yoke/comm/probe/link_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "yoke/base/error.h"

namespace yoke::comm {
namespace {

/// Shares beyond this many medians count less and less (Huber's weights).
constexpr double kCommonMisses = 1.5;
/// Weights settle in a handful of rounds.
constexpr int kRounds = 50;

struct Line {
  double latency = 0;
  double seconds_per_byte = 0;

  double at(std::size_t bytes) const { return latency + seconds_per_byte * static_cast<double>(bytes); }
};

/// By how much of a sample's time the line misses it.
double miss(const Line& line, const LinkSample& sample) {
  return (line.at(sample.bytes) - sample.seconds) / sample.seconds;
}

/// Least squares of the weighted misses: each sample's equation is divided by its time.
Line solve(std::span<const LinkSample> samples, const std::vector<double>& weights) {
  double w11 = 0, w1b = 0, wbb = 0, y1 = 0, yb = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double one = 1 / samples[i].seconds;
    const double bytes = static_cast<double>(samples[i].bytes) / samples[i].seconds;
    w11 += weights[i] * one * one;
    w1b += weights[i] * one * bytes;
    wbb += weights[i] * bytes * bytes;
    y1 += weights[i] * one;
    yb += weights[i] * bytes;
  }
  const double determinant = w11 * wbb - w1b * w1b;
  const Line line{(y1 * wbb - yb * w1b) / determinant, (yb * w11 - y1 * w1b) / determinant};
  if (line.latency >= 0 && line.seconds_per_byte > 0) return line;
  // The best line that is physical lies on the border: no latency, or no share of the bytes at all.
  if (line.latency < 0) return {0, yb / wbb};
  return {y1 / w11, 0};
}

double median_miss(std::span<const LinkSample> samples, const Line& line) {
  std::vector<double> misses;
  for (const auto& sample : samples) misses.push_back(std::abs(miss(line, sample)));
  return middle_of(misses).median;
}

}  // namespace

Middle middle_of(std::span<double> values) {
  base::require(!values.empty(), "middle_of: no values");
  std::ranges::sort(values);
  const auto at = [&](double share) {
    const double position = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const auto above = std::min(below + 1, values.size() - 1);
    return values[below] + (values[above] - values[below]) * (position - static_cast<double>(below));
  };
  return {at(0.5), at(0.75) - at(0.25)};
}

LinkFit fit_link(std::span<const LinkSample> samples) {
  base::require(samples.size() >= 2, "fit_link: fewer than two samples");
  for (const auto& sample : samples) base::require(sample.seconds > 0, "fit_link: a sample took no time");
  std::vector<double> weights(samples.size(), 1);
  Line line = solve(samples, weights);
  for (int round = 0; round < kRounds; ++round) {
    const double common = kCommonMisses * median_miss(samples, line);
    if (common <= 0) break;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double off = std::abs(miss(line, samples[i]));
      weights[i] = off <= common ? 1 : common / off;
    }
    line = solve(samples, weights);
  }
  // A link so fast that its bytes do not show: what the largest sample did is a bound that is finite.
  const auto& largest = *std::ranges::max_element(samples, {}, &LinkSample::bytes);
  const double bytes_per_s =
      line.seconds_per_byte > 0 ? 1 / line.seconds_per_byte : static_cast<double>(largest.bytes) / largest.seconds;
  return {.latency = line.latency, .bytes_per_s = bytes_per_s, .error = median_miss(samples, line)};
}

}  // namespace yoke::comm
