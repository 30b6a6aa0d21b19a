// The lanes one device class offers at a fixed local batch size, sync method and extent: how long it takes for each
// number of workers, and the reverse. Every time a lane can take is called a candidate: an optimum is always one.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "yoke/plan/cost/batch_cost.h"
#include "yoke/plan/solve/batch/worker_set.h"

namespace yoke::plan {

class ClassLanes {
 public:
  /// No lane of more than `most_workers` is considered. The class must be able to run `lbs`.
  ClassLanes(const BatchCost& cost, int device_class, int lbs, Sync sync, Extent extent, int most_workers);

  /// Most and fewest workers a device can run within `seconds`; 0 when not even one.
  int most_within(double seconds) const;
  int least_within(double seconds) const;
  /// The largest n such that each of 1 .. n workers can run within `seconds`.
  int every_count_within(double seconds) const;
  /// All worker counts that can run within `seconds`.
  WorkerSet counts_within(double seconds, int limit) const;

  /// The largest candidate <= seconds (0 when there is none), and the smallest > seconds (infinity when there is none).
  double candidate_within(double seconds) const;
  double candidate_above(double seconds) const;
  /// The largest candidate of all.
  double slowest() const;
  /// What every step takes besides its rounds, at least.
  double least_overhead() const;

  /// The fastest (vsw, ga) of exactly `workers`; equal times: the smaller vsw, which needs less memory.
  LaneWork fastest(int workers) const;
  double seconds(const LaneWork& work) const { return lane(work.vsw).seconds(work.ga); }

 private:
  const LaneCost& lane(int vsw) const { return by_vsw_[static_cast<std::size_t>(vsw - 1)]; }
  int vsw_count() const { return static_cast<int>(by_vsw_.size()); }
  /// How many rounds of `vsw` workers fit.
  int rounds_within(int vsw, double seconds) const;

  int lbs_;
  int most_workers_;
  std::vector<LaneCost> by_vsw_;  // of 1, 2, .. workers at once
};

}  // namespace yoke::plan
