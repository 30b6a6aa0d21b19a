#include "yoke/comm/probe/link_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "yoke/base/error.h"

namespace yoke::comm {
namespace {

using base::Deadline;
using base::Result;
using base::Status;

constexpr int kWarmUps = 2;

/// Times one repetition of an op on this rank, in seconds; 0 on a rank that has no part in it.
using Timed = std::function<Result<double>(std::span<float> data)>;

class Probe {
 public:
  /// `turns`: how often a byte passes through a rank in one repetition.
  Probe(Group& group, const ProbeOptions& options, const base::Clock& clock, double turns, Timed timed)
      : group_(group), options_(options), clock_(clock), turns_(turns), timed_(std::move(timed)) {
    base::require(options.sizes.size() >= 2 && std::ranges::is_sorted(options.sizes, std::ranges::less_equal()) &&
                      options.sizes.front() >= sizeof(float),
                  "probe: expected ascending sizes");
    data_.assign(options.sizes.back() / sizeof(float), 0.0F);  // sums of zeros stay what they are
  }

  Result<LinkProbe> run() {
    LinkProbe probe{.backend = std::string(group_.backend()), .ranks = group_.size()};
    double left = base::to_seconds(options_.budget);
    for (std::size_t i = 0; i < options_.sizes.size(); ++i) {
      const std::size_t bytes = options_.sizes[i];
      if (probe.samples.size() >= 2 && expected_seconds(probe, bytes) * (kWarmUps + kLeastRepeats) > left) {
        probe.left_out.assign(options_.sizes.begin() + static_cast<std::ptrdiff_t>(i), options_.sizes.end());
        break;
      }
      const auto sizes_left = static_cast<double>(options_.sizes.size() - i);
      YOKE_TRY(const double spent, measure(bytes, left / sizes_left, probe));
      left = std::max(0.0, left - spent);
    }
    probe.fit = fit_link(probe.samples);
    return probe;
  }

 private:
  Deadline patience() const { return Deadline::in(options_.patience, clock_); }

  /// By the size before, of which bytes take time in proportion at worst, or by the line so far where that is less: a
  /// machine that is busy otherwise makes single sizes slow.
  static double expected_seconds(const LinkProbe& probe, std::size_t bytes) {
    const auto& last = probe.samples.back();
    const auto count = static_cast<double>(bytes);
    const LinkFit line = fit_link(probe.samples);
    return std::min(last.seconds * count / static_cast<double>(last.bytes), line.latency + count / line.bytes_per_s);
  }

  /// All ranks get the largest of each number, so that they decide alike.
  Status agree(std::vector<double>& seconds) const {
    return group_.run(all_reduce(std::span(seconds), Reduction::kMax), patience());
  }

  /// Seconds spent, and one more sample.
  Result<double> measure(std::size_t bytes, double share, LinkProbe& probe) {
    const std::span data = std::span(data_).first(bytes / sizeof(float));
    const auto begin = clock_.now();
    for (int i = 0; i < kWarmUps; ++i) YOKE_CHECK(repeat(data));
    // With the barrier before each, which on a busy machine takes as long as the op.
    std::vector<double> warm{base::to_seconds(clock_.now() - begin)};
    YOKE_CHECK(agree(warm));
    const double affordable = (share - warm[0]) / std::max(warm[0] / kWarmUps, 1e-7);
    const int repeats = static_cast<int>(std::clamp<double>(affordable, kLeastRepeats, kMostRepeats));
    std::vector<double> seconds;
    processor_ = 0;
    for (int i = 0; i < repeats; ++i) {
      YOKE_TRY(const double took, repeat(data));
      seconds.push_back(took);
    }
    YOKE_CHECK(agree(seconds));
    std::vector<double> spent{base::to_seconds(clock_.now() - begin), processor_};
    YOKE_CHECK(agree(spent));
    if (group_.backend() != "local") {
      probe.processor_seconds_per_byte = spent[1] / (repeats * turns_ * static_cast<double>(bytes));
    }
    const Middle middle = middle_of(seconds);
    // A clock that did not move gives no time: its step is the least that can be said.
    probe.samples.push_back(
        {.bytes = bytes, .seconds = std::max(middle.median, 1e-9), .spread = middle.spread, .repeats = repeats});
    return spent[0];
  }

  Result<double> repeat(std::span<float> data) {
    YOKE_CHECK(group_.run(barrier(), patience()));
    const double before = base::processor_seconds();
    auto took = timed_(data);
    processor_ += base::processor_seconds() - before;
    return took;
  }

  Group& group_;
  const ProbeOptions& options_;
  const base::Clock& clock_;
  const double turns_;
  const Timed timed_;
  double processor_ = 0;  // seconds of this rank in the repetitions of one size
  std::vector<float> data_;
};

}  // namespace

std::vector<std::size_t> usual_probe_sizes() {
  constexpr std::size_t kKi = 1024;
  return {4 * kKi,       16 * kKi,       64 * kKi,       256 * kKi,      1024 * kKi,
          4 * kKi * kKi, 16 * kKi * kKi, 25 * kKi * kKi, 50 * kKi * kKi, 100 * kKi * kKi};
}

Result<LinkProbe> probe_all_reduce(Group& group, const ProbeOptions& options, const base::Clock& clock) {
  base::require(group.size() >= 2, "probe_all_reduce: one rank alone has no link");
  return Probe(group, options, clock, 1,
               [&](std::span<float> data) -> Result<double> {
                 const auto begin = clock.now();
                 YOKE_CHECK(group.run(all_reduce(data), Deadline::in(options.patience, clock)));
                 return base::to_seconds(clock.now() - begin);
               })
      .run();
}

Result<LinkProbe> probe_messages(Group& group, int one, int other, const ProbeOptions& options,
                                 const base::Clock& clock) {
  base::require(one != other && std::min(one, other) >= 0 && std::max(one, other) < group.size(),
                fmt::format("probe_messages between {} and {} of {}", one, other, group.size()));
  const auto there_and_back = [&](std::span<float> data) -> Result<double> {
    if (group.rank() != one && group.rank() != other) return 0.0;
    const bool first = group.rank() == one;
    const int peer = first ? other : one;
    const auto deadline = Deadline::in(options.patience, clock);
    const auto begin = clock.now();
    if (first) YOKE_CHECK(group.run(send(std::span<const float>(data), peer), deadline));
    YOKE_CHECK(group.run(receive(data, peer), deadline));
    if (!first) YOKE_CHECK(group.run(send(std::span<const float>(data), peer), deadline));
    // The second rank starts its clock before the message is under way: only the first one's time is both ways.
    return first ? base::to_seconds(clock.now() - begin) / 2 : 0.0;
  };
  return Probe(group, options, clock, 2, there_and_back).run();
}

}  // namespace yoke::comm
