// How long an epoch takes on a choice of devices when the global batch size follows a forecast. Every choice is charged
// for the same samples at the same batch sizes, so choices compare fairly: the forecast is cut into loads, and a load
// runs at the local batch size that is fastest there, with its batch rounded to a whole number of workers.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "yoke/plan/solve/batch/class_lanes.h"
#include "yoke/plan/solve/batch/pool.h"

namespace yoke::plan {

/// A part of the epoch with one batch size: `samples` dealt as workers[i] workers of the i-th local batch size.
struct Load {
  double samples = 0;
  std::vector<int> workers;
  // The forecast batches that were merged into it.
  double least_gbs = 0;
  double most_gbs = 0;
};

/// How a load runs: the forecast batch is rounded to a whole number of workers of the fastest local batch size.
struct LoadRun {
  std::size_t lbs_index = 0;
  double step_seconds = 0;
};

/// Interval after interval of `interval` steps (the first has `first_steps`); the last runs until `samples` are used
/// up. Intervals with the same workers are merged. `trajectory` is not empty and all > 0.
std::vector<Load> make_loads(const std::vector<int>& local_batch_sizes, std::span<const double> trajectory,
                             std::int64_t samples, int first_steps, int interval);

/// Remembers lane times between calls, hence not const: one thread only. Cost and pool are borrowed and must outlive
/// it.
class EpochCost {
 public:
  EpochCost(const BatchCost& cost, const Pool& pool, Sync sync, std::vector<Load> loads);

  const std::vector<Load>& loads() const { return loads_; }
  const std::vector<int>& local_batch_sizes() const { return cost_.local_batch_sizes(); }

  /// Exact. nullopt when the devices cannot run some load (fewer workers than devices, or no common local batch size),
  /// or when the epoch does not take less than `below`.
  std::optional<double> seconds(const Counts& counts, double below = std::numeric_limits<double>::infinity());

  /// How each load runs in the time that `seconds` gives, which must not be nullopt.
  std::vector<LoadRun> runs(const Counts& counts);

  /// Lanes of a kind at the i-th local batch size; nullptr when it cannot run it.
  const ClassLanes* lanes(std::size_t kind, std::size_t lbs_index, Extent extent);

  /// No device of the kind computes more samples per second than this, at any local batch size.
  double most_rate(std::size_t kind) const { return most_rates_[kind]; }
  /// No step of `devices` on several nodes takes less than this besides its compute.
  double least_overhead(int devices);

 private:
  /// The fastest way to run a load, if it takes less than `below` seconds per sample.
  std::optional<LoadRun> run(const Load& load, const Counts& counts, Extent extent, double below);

  const BatchCost& cost_;
  const Pool& pool_;
  const Sync sync_;
  const std::vector<Load> loads_;
  std::vector<int> most_workers_;  // of any load, per local batch size
  std::vector<double> most_rates_;
  using Table = std::vector<std::vector<std::optional<ClassLanes>>>;  // by class, then local batch size
  std::map<Extent, Table> tables_;
};

}  // namespace yoke::plan
