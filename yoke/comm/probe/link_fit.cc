#include "yoke/comm/probe/link_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "yoke/base/error.h"

namespace yoke::comm {
namespace {

struct Line {
  double latency = 0;
  double seconds_per_byte = 0;

  double at(std::size_t bytes) const { return latency + seconds_per_byte * static_cast<double>(bytes); }
  bool physical() const { return latency >= 0 && seconds_per_byte >= 0 && latency + seconds_per_byte > 0; }
};

/// How far the line is from the samples, in factors: twice as long and half as long are equally wrong.
double distance(const Line& line, std::span<const LinkSample> samples) {
  double sum = 0;
  for (const auto& sample : samples) sum += std::abs(std::log(line.at(sample.bytes) / sample.seconds));
  return sum;
}

Line through(const LinkSample& one, const LinkSample& other) {
  const double slope =
      (other.seconds - one.seconds) / (static_cast<double>(other.bytes) - static_cast<double>(one.bytes));
  return {one.seconds - slope * static_cast<double>(one.bytes), slope};
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
  // The line with the least sum of distances goes through samples, so these are all there are to choose from; those
  // without latency or without a price for bytes are what is left where every pair would need a negative one.
  std::vector<Line> lines;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    lines.push_back({samples[i].seconds, 0});
    if (samples[i].bytes > 0) lines.push_back({0, samples[i].seconds / static_cast<double>(samples[i].bytes)});
    for (std::size_t k = i + 1; k < samples.size(); ++k) {
      if (samples[k].bytes != samples[i].bytes) lines.push_back(through(samples[i], samples[k]));
    }
  }
  std::erase_if(lines, [](const Line& line) { return !line.physical(); });
  const Line line = *std::ranges::min_element(lines, {}, [&](const Line& each) { return distance(each, samples); });
  double misses = 0;
  for (const auto& sample : samples) misses += std::abs(line.at(sample.bytes) / sample.seconds - 1);
  // A link so fast that its bytes do not show: what the largest sample did is a bound that is finite.
  const auto& largest = *std::ranges::max_element(samples, {}, &LinkSample::bytes);
  const double bytes_per_s =
      line.seconds_per_byte > 0 ? 1 / line.seconds_per_byte : static_cast<double>(largest.bytes) / largest.seconds;
  return {.latency = line.latency, .bytes_per_s = bytes_per_s, .error = misses / static_cast<double>(samples.size())};
}

}  // namespace yoke::comm
