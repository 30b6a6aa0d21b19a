// What a link does, as two numbers: time = latency + bytes / bandwidth.
#pragma once

#include <cstddef>
#include <span>

namespace yoke::comm {

/// The repetitions of one size: their median, and the time between their quarters.
struct LinkSample {
  std::size_t bytes = 0;
  double seconds = 0;
  double spread = 0;  // seconds
  int repeats = 1;
  bool operator==(const LinkSample&) const = default;
};

struct LinkFit {
  double latency = 0;  // seconds, 0 or more
  double bytes_per_s = 0;
  double error = 0;  // the mean share by which the line misses the samples
  bool operator==(const LinkFit&) const = default;
};

/// The line with the least sum of distances from the samples, in factors, so that kilobytes count as much as megabytes,
/// and a few samples far off it (a page fault, a busy core) hardly move it. Latency is never negative. Precondition: at
/// least two samples, and times > 0.
LinkFit fit_link(std::span<const LinkSample> samples);

/// The median of `values` and the distance between their quarters; sorts them. Precondition: not empty.
struct Middle {
  double median = 0;
  double spread = 0;
};
Middle middle_of(std::span<double> values);

}  // namespace yoke::comm
