#include "yoke/plan/solve/scale/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "yoke/base/units.h"
#include "yoke/plan/solve/batch/batch.h"
#include "yoke/plan/solve/batch/pool.h"
#include "yoke/plan/solve/scale/epoch.h"
#include "yoke/plan/solve/scale/scale_search.h"

namespace yoke::plan {
namespace {

using base::infeasible_error;
using base::input_error;
using base::Result;
using base::Status;

Status validate(const BatchCost& cost, const ScaleRequest& request) {
  if (request.trajectory.empty())
    return input_error("found no forecast batch size, expected at least the present one", {.field = "trajectory"});
  const double most_gbs = static_cast<double>(kMaxWorkers) * cost.local_batch_sizes().front();
  for (const double gbs : request.trajectory) {
    if (!(gbs >= 1 && gbs <= most_gbs)) {
      return input_error(fmt::format("found a forecast batch size of {}, expected 1 to {}", gbs, most_gbs),
                         {.field = "trajectory"});
    }
  }
  if (request.samples < 1)
    return input_error(fmt::format("found {} samples an epoch, expected 1 or more", request.samples),
                       {.field = "samples"});
  if (request.interval < 1 || request.first_steps.value_or(1) < 1) {
    return input_error(fmt::format("found an interval of {} steps with {} left of the first, expected 1 or more",
                                   request.interval, request.first_steps.value_or(request.interval)),
                       {.field = "interval"});
  }
  if (request.unit < 1)
    return input_error(fmt::format("found a unit of {} devices, expected 1 or more", request.unit), {.field = "unit"});
  if (!(request.move_seconds >= 0 && std::isfinite(request.move_seconds))) {
    return input_error(fmt::format("found {} s for a move, expected a finite time >= 0", request.move_seconds),
                       {.field = "move_time"});
  }
  if (request.goal == ScaleGoal::kLowestCostWithinDeadline && !(request.deadline_seconds > 0)) {
    return input_error(fmt::format("found a deadline of {} s, expected more than 0", request.deadline_seconds),
                       {.field = "deadline"});
  }
  if (request.goal == ScaleGoal::kShortestTimeWithinBudget && !(request.budget > 0)) {
    return input_error(fmt::format("found a budget of {}, expected more than 0", request.budget), {.field = "budget"});
  }
  return {};
}

/// The devices in use as counts of granules; nullopt when none are.
Result<std::optional<Counts>> present_counts(const BatchCost& cost, const Pool& pool, const ScaleRequest& request) {
  if (request.present.empty()) return std::optional<Counts>();
  Counts counts(pool.kinds().size(), 0);
  for (const NodeUse& use : request.present) {
    YOKE_TRY(const cluster::Node node, cost.cluster().require_node(use.node));
    int counted = 0;
    for (std::size_t kind = 0; kind < counts.size(); ++kind) {
      for (const Granule& granule : pool.kinds()[kind].granules) {
        const bool here = cost.cluster().nodes()[static_cast<std::size_t>(granule.node)].name == use.node;
        if (!here || granule.first_device + pool.kinds()[kind].devices > use.devices) continue;
        ++counts[kind];
        counted += pool.kinds()[kind].devices;
      }
    }
    if (counted != use.devices || use.devices < 1) {
      return input_error(fmt::format("found {} devices of node {} in use, expected a multiple of the unit {} or all {}",
                                     use.devices, use.node, request.unit, node.devices),
                         {.field = "present"});
    }
  }
  return std::optional<Counts>(std::move(counts));
}

/// Node by node; of equal granules those already in use, so that as little as possible moves.
std::vector<NodeUse> uses(const BatchCost& cost, const Pool& pool, const Counts& counts, const ScaleRequest& request) {
  const auto& nodes = cost.cluster().nodes();
  const auto in_use = [&](const Granule& granule) {
    return std::any_of(request.present.begin(), request.present.end(), [&](const NodeUse& use) {
      return use.node == nodes[static_cast<std::size_t>(granule.node)].name && granule.first_device < use.devices;
    });
  };
  const bool spread = pool.extent(counts).across_nodes;
  const auto packed = pool.placement(counts);
  std::vector<int> devices(nodes.size(), 0);
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    std::vector<Granule> chosen = spread ? pool.kinds()[kind].granules : packed[kind];
    std::stable_partition(chosen.begin(), chosen.end(), in_use);
    chosen.resize(static_cast<std::size_t>(counts[kind]));
    for (const Granule& granule : chosen) devices[static_cast<std::size_t>(granule.node)] += pool.kinds()[kind].devices;
  }
  std::vector<NodeUse> result;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (devices[i] > 0) result.push_back({.node = nodes[i].name, .devices = devices[i]});
  }
  return result;
}

ScaleMeasure measure_of(const ScaleRequest& request) {
  ScaleMeasure measure;
  if (request.goal == ScaleGoal::kLowestCostWithinDeadline) {
    measure.by = ScaleMeasure::By::kCost;
    measure.most_seconds = request.deadline_seconds;
  }
  if (request.goal == ScaleGoal::kShortestTimeWithinBudget) measure.most_cost = request.budget;
  return measure;
}

ScaleOption option_of(EpochCost& epoch, const Pool& pool, const Counts& counts, std::vector<NodeUse> nodes,
                      double seconds) {
  ScaleOption option{.nodes = std::move(nodes), .seconds = seconds, .cost = std::nullopt, .batches = {}};
  if (const auto price = pool.price_per_hour(counts)) option.cost = *price * seconds / 3600;
  const auto runs = epoch.runs(counts);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Load& load = epoch.loads()[i];
    const int lbs = epoch.local_batch_sizes()[runs[i].lbs_index];
    option.batches.push_back({.least_forecast = load.least_gbs,
                              .most_forecast = load.most_gbs,
                              .gbs = std::int64_t{load.workers[runs[i].lbs_index]} * lbs,
                              .lbs = lbs,
                              .samples = load.samples,
                              .step_seconds = runs[i].step_seconds});
  }
  return option;
}

/// Why nothing was found: what the limit would have to be.
base::Error explain_failure(EpochCost& epoch, const Pool& pool, ScaleProblem problem, const ScaleRequest& request) {
  problem.measure = {.by = request.goal == ScaleGoal::kShortestTimeWithinBudget ? ScaleMeasure::By::kCost
                                                                                : ScaleMeasure::By::kSeconds};
  const auto best = search_scale(epoch, pool, problem).best;
  if (!best) {
    const auto& trajectory = request.trajectory;
    return infeasible_error(fmt::format(
        "no choice of devices runs every batch of the forecast ({} to {} samples): each device needs a worker; take "
        "smaller units than {}, or raise the lower bound of the batch",
        *std::min_element(trajectory.begin(), trajectory.end()),
        *std::max_element(trajectory.begin(), trajectory.end()), request.unit));
  }
  if (request.goal == ScaleGoal::kShortestTimeWithinBudget) {
    return infeasible_error(fmt::format("no choice of devices keeps to the budget of {:.2f}: the cheapest costs {:.2f}",
                                        request.budget, best->value));
  }
  return infeasible_error(fmt::format("no choice of devices meets the deadline of {}: the fastest takes {}",
                                      base::format_seconds(request.deadline_seconds),
                                      base::format_seconds(best->seconds)));
}

}  // namespace

Result<ScaleDecision> decide_scale(const BatchCost& cost, const ScaleRequest& request) {
  YOKE_CHECK(validate(cost, request));
  std::vector<int> nodes(cost.cluster().nodes().size());
  std::iota(nodes.begin(), nodes.end(), 0);
  const Pool pool(cost, nodes, request.unit);

  ScaleProblem problem;
  YOKE_TRY(problem.present, present_counts(cost, pool, request));
  if (problem.present) problem.move_seconds = request.move_seconds;
  problem.measure = measure_of(request);
  for (const GranuleKind& kind : pool.kinds()) {
    if (!kind.price_per_hour && request.goal != ScaleGoal::kShortestTime) {
      const auto& node = cost.cluster().nodes()[static_cast<std::size_t>(kind.granules.front().node)];
      return input_error(fmt::format("node {} has no price: set its price_per_hour, or its tflops", node.name));
    }
    problem.device_prices.push_back(kind.price_per_hour.value_or(0));
  }

  const Sync sync = request.sync.value_or(cost.recommended_sync());
  EpochCost epoch(cost, pool, sync,
                  make_loads(cost.local_batch_sizes(), request.trajectory, request.samples,
                             request.first_steps.value_or(request.interval), request.interval));
  const ScaleSearchResult found = search_scale(epoch, pool, problem);
  if (!found.best) return explain_failure(epoch, pool, problem, request);

  ScaleDecision decision;
  decision.move = problem.present != found.best->counts;
  decision.chosen =
      option_of(epoch, pool, found.best->counts,
                decision.move ? uses(cost, pool, found.best->counts, request) : request.present, found.best->seconds);
  if (problem.present) {
    if (const auto seconds = epoch.seconds(*problem.present)) {
      decision.stay = option_of(epoch, pool, *problem.present, request.present, *seconds);
    }
  }
  decision.solved = found.solved;
  double all = 1;
  for (const GranuleKind& kind : pool.kinds()) all *= kind.count() + 1;
  decision.candidates = all - 1;
  decision.proven = found.proven;
  return decision;
}

}  // namespace yoke::plan
