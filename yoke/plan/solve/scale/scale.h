// The auto-scaling decision: which devices the next epoch should run on, given a forecast of the batch size, what
// moving costs, and what devices cost by the hour. Candidates are counts per kind of granule, not sets of machines, so
// their number is polynomial in the nodes; bounds leave few of them to be solved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/plan/cost/batch_cost.h"

namespace yoke::plan {

enum class ScaleGoal {
  kShortestTime,
  kLowestCostWithinDeadline,
  kShortestTimeWithinBudget,
};

/// Devices of one node in use, counted from its first.
struct NodeUse {
  std::string node;
  int devices = 0;

  bool operator==(const NodeUse&) const = default;
};

struct ScaleRequest {
  std::vector<double> trajectory;  // forecast global batch size of each interval; the first is the one in use
  std::int64_t samples = 0;        // of the epoch
  int interval = 100;              // steps between changes of the batch size
  std::optional<int> first_steps;  // left of the present interval; absent: all of it
  std::optional<Sync> sync;        // absent: what the cost model recommends
  int unit = 1;                    // devices of a node are taken and given back so many at a time
  std::vector<NodeUse> present;    // in use now; empty: nothing runs yet
  double move_seconds = 0;         // lost when the devices change
  ScaleGoal goal = ScaleGoal::kShortestTime;
  double deadline_seconds = 0;  // for the epoch, with kLowestCostWithinDeadline
  double budget = 0;            // for the epoch, with kShortestTimeWithinBudget; in the unit of the prices
};

/// A part of the epoch as it was priced: forecast batches and the batch that was run for them, the nearest whole number
/// of workers of the fastest local batch size.
struct PricedBatch {
  double least_forecast = 0;
  double most_forecast = 0;
  std::int64_t gbs = 0;
  int lbs = 0;
  double samples = 0;  // of the epoch
  double step_seconds = 0;
};

struct ScaleOption {
  std::vector<NodeUse> nodes;  // in cluster order
  double seconds = 0;          // of the epoch, with the move if there is one
  std::optional<double> cost;  // of those seconds; absent when some price is not known
  std::vector<PricedBatch> batches;
};

struct ScaleDecision {
  bool move = false;
  ScaleOption chosen;
  std::optional<ScaleOption> stay;  // absent when nothing runs, or what runs cannot follow the forecast
  /// Candidates whose epoch was solved exactly, of all there are.
  std::int64_t solved = 0;
  double candidates = 0;
  bool proven = true;  // false: the search was cut short, a better candidate may exist
};

/// The best candidate by the goal; ties: stay, then fewer devices, then the first in a fixed order of search. So a move
/// must gain more than it costs. A candidate must be able to run every batch of the forecast, one worker per device at
/// least. Exact when `proven`; the effort is limited (ScaleEffort), which in practice only cuts the search for the
/// lowest cost among very many candidates of nearly equal price per speed. Infeasible error when none can, or none
/// meets the deadline or budget (it says what can be reached).
base::Result<ScaleDecision> decide_scale(const BatchCost& cost, const ScaleRequest& request);

}  // namespace yoke::plan
