// The batch solver: where the workers of one global batch run. For every local batch size it deals gbs / lbs workers to
// the devices so that the slowest lane is as fast as possible, exactly, and takes the fastest local batch size.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/plan/cost/batch_cost.h"

namespace yoke::plan {

/// A step of more workers than this is refused: no cluster runs it, and solving it would take minutes.
inline constexpr int kMaxWorkers = 1 << 22;

struct BatchRequest {
  int gbs = 0;
  std::optional<int> lbs;            // absent: the best of all that were profiled
  std::optional<Sync> sync;          // absent: what the cost model recommends
  std::vector<std::string> servers;  // names of the nodes that may be used; empty: all
  /// Devices of a node that run the same number of workers. The last unit of a node may be smaller.
  int unit = 1;
  /// Absent: every device works. Else devices may be left idle, so many of a node at a time, if that makes the step
  /// shorter (the all-reduce is cheaper among fewer).
  std::optional<int> idle_unit;
};

/// What keeps a lane from running its workers faster.
enum class LaneLimit {
  kCompute,
  kMemory,     // it runs several rounds of as many workers at once as fit its memory
  kAllReduce,  // it waits longer for the all-reduce than it computes
};
/// `compute`, `memory` or `all-reduce`.
std::string_view to_string(LaneLimit limit);

/// Devices first_device .. first_device + devices - 1 of a node, each doing the same.
struct NodeLane {
  std::string node;
  int device_class = 0;
  int first_device = 0;
  int devices = 1;
  int vsw = 1;
  int ga = 0;
  double seconds = 0;
  double share = 0;  // of the step: 1 for the slowest lane
  LaneLimit limit = LaneLimit::kCompute;
  StepParts parts;
};

/// Every device the same number of workers: what one would do without a solver.
struct EqualSplit {
  int gbs = 0;  // the nearest to the wanted one that splits equally
  int lbs = 0;
  int workers_per_device = 0;
  double step_seconds = 0;
  double samples_per_second = 0;
};

struct BatchSolution {
  int gbs = 0;
  int lbs = 0;
  int workers = 0;
  Sync sync = Sync::kOverlap;
  double step_seconds = 0;
  double samples_per_second = 0;
  Extent extent;
  std::vector<NodeLane> lanes;            // in cluster order; devices in none are idle
  std::optional<EqualSplit> equal_split;  // absent when some node can run no common local batch size
  bool proven = true;                     // false: the search for idle devices was cut short (see choose.h)
};

/// Ties: the smaller lbs; then (with idle devices) fewer devices. Infeasible error only when there is no solution; it
/// names the limit that binds and the nearest batch sizes that have one. Input errors name the field of the request.
base::Result<BatchSolution> solve_batch(const BatchCost& cost, const BatchRequest& request);

/// The nearest global batch sizes on both sides that have a solution under the other options of the request.
struct NearbyBatches {
  std::optional<int> below;
  std::optional<int> above;
};
base::Result<NearbyBatches> nearby_batches(const BatchCost& cost, const BatchRequest& request);

/// The local batch sizes a request considers, ascending, and the positions of its servers; input error when a name or
/// the lbs is not known.
struct BatchScope {
  std::vector<int> local_batch_sizes;
  std::vector<int> nodes;
};
base::Result<BatchScope> batch_scope(const BatchCost& cost, const BatchRequest& request);

}  // namespace yoke::plan
