// Time as an argument. Code that waits or measures takes a Clock, so tests own time; only `cli` makes a SystemClock.
#pragma once

#include <chrono>

namespace yoke::base {

using Duration = std::chrono::nanoseconds;
/// A point on a clock that never goes back. The origin is the clock's own.
using Instant = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
/// The nearest nanosecond. Values beyond the range of Duration (292 years) clamp to its ends.
Duration from_seconds(double seconds);

/// Thread-safe: any thread may ask the time.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
};

/// Seconds that the processors have spent on all threads of this process so far.
double processor_seconds();

class SystemClock final : public Clock {
 public:
  Instant now() const override { return std::chrono::steady_clock::now(); }
};

/// A clock that stands still until told; for tests. One thread only.
class ManualClock final : public Clock {
 public:
  Instant now() const override { return now_; }
  void advance(Duration by) { now_ += by; }

 private:
  Instant now_{};
};

/// The moment by which a wait must have ended. Every blocking call takes one.
class Deadline {
 public:
  static Deadline in(Duration wait, const Clock& clock) { return Deadline(clock.now() + wait); }
  static Deadline at(Instant instant) { return Deadline(instant); }

  Instant instant() const { return instant_; }
  bool passed(const Clock& clock) const { return clock.now() >= instant_; }
  /// Zero once passed.
  Duration left(const Clock& clock) const {
    const auto now = clock.now();
    return now >= instant_ ? Duration::zero() : instant_ - now;
  }

 private:
  explicit Deadline(Instant instant) : instant_(instant) {}
  Instant instant_;
};

}  // namespace yoke::base
