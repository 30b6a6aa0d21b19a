// The time that profiling may take, and how it is dealt out: slow steps are repeated less often, not for longer.
#pragma once

#include <algorithm>

#include "yoke/base/clock.h"

namespace yoke::profiler {

/// Runs from its making on. Work is counted in samples that pass through the model, so that all of it can be compared
/// before it is done. One thread owns it; the clock must outlive it.
class Budget {
 public:
  Budget(base::Duration whole, const base::Clock& clock) : whole_(whole), clock_(&clock), begin_(clock.now()) {}

  base::Duration whole() const { return whole_; }
  /// Zero once it is spent.
  base::Duration left() const { return std::max(base::Duration::zero(), whole_ - (clock_->now() - begin_)); }
  /// Waiting that is not to count.
  void exclude(base::Duration waited) { begin_ += waited; }

  /// Steps over so many samples took so long. What is to come is expected to go at the pace of all that was seen: that
  /// of the last steps alone would keep to a moment that was disturbed.
  void saw(double samples, double seconds);
  /// When the machine is not what it was.
  void forget_pace() { seen_samples_ = seen_seconds_ = 0; }
  bool knows_pace() const { return seen_samples_ > 0; }
  /// What so many samples will take; 0 while no pace is known.
  double seconds_of(double samples) const { return knows_pace() ? samples * seen_seconds_ / seen_samples_ : 0; }
  bool affords(double samples) const { return seconds_of(samples) <= base::to_seconds(left()); }

  /// A piece of work to come, for which take_share() or drop() is called later.
  void plan(double samples) { planned_ += samples; }
  void drop(double samples) { planned_ -= samples; }
  /// Seconds for a planned piece: its share of what is left, by the samples of all that is planned. So what one piece
  /// leaves over is dealt again, and so is what it takes too much.
  double take_share(double samples);

 private:
  base::Duration whole_;
  const base::Clock* clock_;
  base::Instant begin_;
  double seen_samples_ = 0;
  double seen_seconds_ = 0;
  double planned_ = 0;
};

}  // namespace yoke::profiler
