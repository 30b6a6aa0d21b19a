#include "yoke/plan/solve/batch/batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "yoke/plan/solve/batch/choose.h"
#include "yoke/plan/solve/batch/pool.h"
#include "yoke/plan/solve/batch/reach.h"

namespace yoke::plan {
namespace {

using base::infeasible_error;
using base::input_error;
using base::Result;

Idle idle_of(const BatchRequest& request) {
  return request.idle_unit ? Idle::kAllowed : Idle::kForbidden;
}

LaneLimit limit_of(const BatchCost& cost, const NodeLane& lane, int lbs) {
  const StepParts& parts = lane.parts;
  if (parts.all_reduce_exposed > parts.data + parts.forward + parts.backward) return LaneLimit::kAllReduce;
  const bool full = lane.vsw == cost.max_vsw(lane.device_class, lbs);
  return full && lane.ga > 0 ? LaneLimit::kMemory : LaneLimit::kCompute;
}

/// The lanes of a choice, unit by unit, neighbours that do the same joined.
std::vector<NodeLane> lanes_of(const BatchCost& cost, const Pool& pool, const Choice& choice,
                               const StepSetting& setting) {
  const auto& nodes = cost.cluster().nodes();
  std::vector<std::size_t> next_unit(choice.groups.size(), 0);
  std::vector<std::pair<int, NodeLane>> units;  // node position, lane
  const auto granules = pool.placement(choice.counts);
  for (std::size_t kind = 0; kind < granules.size(); ++kind) {
    const GranuleKind& of = pool.kinds()[kind];
    for (const Granule& granule : granules[kind]) {
      for (int first = 0; first < of.devices; first += setting.unit) {
        const int size = std::min(setting.unit, of.devices - first);
        const auto group = std::find_if(choice.groups.begin(), choice.groups.end(), [&](const UnitGroup& candidate) {
          return candidate.device_class == of.device_class && candidate.size == size;
        });
        const auto index = static_cast<std::size_t>(group - choice.groups.begin());
        const int workers = choice.deal.workers[index][next_unit[index]++];
        const ClassLanes lanes(cost, of.device_class, setting.lbs, setting.sync, choice.extent, workers);
        const LaneWork work = lanes.fastest(workers);
        NodeLane lane{.node = nodes[static_cast<std::size_t>(granule.node)].name,
                      .device_class = of.device_class,
                      .first_device = granule.first_device + first,
                      .devices = size,
                      .vsw = work.vsw,
                      .ga = work.ga,
                      .seconds = lanes.seconds(work),
                      .share = 0,
                      .limit = LaneLimit::kCompute,
                      .parts = cost.parts(of.device_class, work, setting.sync, choice.extent)};
        lane.share = lane.seconds / choice.deal.seconds;
        lane.limit = limit_of(cost, lane, setting.lbs);
        units.emplace_back(granule.node, std::move(lane));
      }
    }
  }
  std::stable_sort(units.begin(), units.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second.first_device) < std::pair(b.first, b.second.first_device);
  });
  std::vector<NodeLane> joined;
  for (auto& [node, lane] : units) {
    if (!joined.empty() && joined.back().node == lane.node && joined.back().vsw == lane.vsw &&
        joined.back().ga == lane.ga && joined.back().first_device + joined.back().devices == lane.first_device) {
      joined.back().devices += lane.devices;
    } else {
      joined.push_back(std::move(lane));
    }
  }
  return joined;
}

std::optional<EqualSplit> equal_split(const BatchCost& cost, const Pool& pool, const BatchScope& scope, Sync sync,
                                      int gbs) {
  const Counts all = pool.everything();
  const Extent extent = pool.extent(all);
  std::optional<EqualSplit> best;
  for (const int lbs : scope.local_batch_sizes) {
    const std::int64_t step = std::int64_t{lbs} * extent.devices;
    const std::int64_t below = std::max<std::int64_t>(gbs / step, 1);
    const int each =
        static_cast<int>(std::llabs(below * step - gbs) <= std::llabs((below + 1) * step - gbs) ? below : below + 1);
    if (each * step > INT32_MAX) continue;
    EqualSplit split{.gbs = static_cast<int>(each * step), .lbs = lbs, .workers_per_device = each};
    bool runs = true;
    for (const UnitGroup& group : unit_groups(pool, all, 1)) {
      if (cost.max_vsw(group.device_class, lbs) == 0) {
        runs = false;
        break;
      }
      const ClassLanes lanes(cost, group.device_class, lbs, sync, extent, each);
      split.step_seconds = std::max(split.step_seconds, lanes.seconds(lanes.fastest(each)));
    }
    if (!runs) continue;
    split.samples_per_second = split.gbs / split.step_seconds;
    const auto away = [gbs](const EqualSplit& of) { return std::abs(of.gbs - gbs); };
    const bool better = !best || away(split) < away(*best) ||
                        (away(split) == away(*best) && split.samples_per_second > best->samples_per_second);
    if (better) best = split;
  }
  return best;
}

std::string nearby_text(const NearbyBatches& nearby) {
  if (nearby.below && nearby.above) {
    return fmt::format("the nearest batch sizes with a solution are {} and {}", *nearby.below, *nearby.above);
  }
  if (nearby.below) return fmt::format("the nearest batch size with a solution is {}", *nearby.below);
  if (nearby.above) return fmt::format("the smallest batch size with a solution is {}", *nearby.above);
  return "no batch size has a solution";
}

/// Why there is no solution: the limit that binds.
std::string binding_limit(const BatchCost& cost, const Pool& pool, const BatchScope& scope,
                          const BatchRequest& request) {
  const auto& sizes = scope.local_batch_sizes;
  std::vector<int> runnable;
  for (const int lbs : sizes) {
    const auto runs = [&](const GranuleKind& kind) { return cost.max_vsw(kind.device_class, lbs) > 0; };
    const auto& kinds = pool.kinds();
    const bool usable = request.idle_unit ? std::any_of(kinds.begin(), kinds.end(), runs)
                                          : std::all_of(kinds.begin(), kinds.end(), runs);
    if (usable) runnable.push_back(lbs);
  }
  if (runnable.empty()) {
    for (const GranuleKind& kind : pool.kinds()) {
      if (cost.max_vsw(kind.device_class, sizes.front()) > 0) continue;
      const auto& node = cost.cluster().nodes()[static_cast<std::size_t>(kind.granules.front().node)];
      return fmt::format(
          "node {} ({}) runs no worker of local batch size {}: not profiled, or too large for its memory", node.name,
          node.type, sizes.front());
    }
    return "no local batch size runs on every node";
  }
  const int devices = request.idle_unit ? 1 : pool.devices(pool.everything());
  std::vector<int> dividing;
  for (const int lbs : runnable) {
    if (request.gbs % lbs == 0) dividing.push_back(lbs);
  }
  if (dividing.empty()) {
    return fmt::format("it is no multiple of a local batch size that runs here ({})", fmt::join(runnable, ", "));
  }
  const int most_workers = request.gbs / dividing.front();
  if (most_workers < devices) {
    return fmt::format("each of the {} devices needs a worker, but local batch size {} makes only {}", devices,
                       dividing.front(), most_workers);
  }
  return fmt::format("units of {} devices run equally many workers, which {} workers of {} samples cannot satisfy",
                     request.unit, most_workers, dividing.front());
}

}  // namespace

std::string_view to_string(LaneLimit limit) {
  switch (limit) {
    case LaneLimit::kCompute:
      return "compute";
    case LaneLimit::kMemory:
      return "memory";
    case LaneLimit::kAllReduce:
      return "all-reduce";
  }
  return "";
}

Result<BatchScope> batch_scope(const BatchCost& cost, const BatchRequest& request) {
  if (request.gbs < 1)
    return input_error(fmt::format("found global batch size {}, expected at least 1", request.gbs), {.field = "gbs"});
  if (request.unit < 1) {
    return input_error(fmt::format("found an allocation unit of {} devices, expected at least 1", request.unit),
                       {.field = "unit"});
  }
  if (request.idle_unit && *request.idle_unit < 1) {
    return input_error(fmt::format("found an idle unit of {} devices, expected at least 1", *request.idle_unit),
                       {.field = "idle_unit"});
  }
  BatchScope scope;
  const auto& nodes = cost.cluster().nodes();
  for (const std::string& name : request.servers) {
    const auto node = cost.cluster().require_node(name);
    if (!node.ok()) return node.error();
  }
  const std::set<std::string> wanted(request.servers.begin(), request.servers.end());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (wanted.empty() || wanted.contains(nodes[i].name)) scope.nodes.push_back(static_cast<int>(i));
  }
  const auto& profiled = cost.local_batch_sizes();
  if (!request.lbs) {
    scope.local_batch_sizes = profiled;
  } else if (std::find(profiled.begin(), profiled.end(), *request.lbs) != profiled.end()) {
    scope.local_batch_sizes = {*request.lbs};
  } else {
    return input_error(fmt::format("found local batch size {}, expected one that was profiled: {}", *request.lbs,
                                   fmt::join(profiled, ", ")),
                       {.field = "lbs"});
  }
  const int largest = scope.local_batch_sizes.back();
  if (request.gbs / largest > kMaxWorkers) {
    return input_error(fmt::format("a global batch of {} in local batches of {} is {} workers, expected at most {}",
                                   request.gbs, largest, request.gbs / largest, kMaxWorkers),
                       {.field = "gbs"});
  }
  std::erase_if(scope.local_batch_sizes, [&](int lbs) { return request.gbs / lbs > kMaxWorkers; });
  return scope;
}

Result<NearbyBatches> nearby_batches(const BatchCost& cost, const BatchRequest& request) {
  YOKE_TRY(const BatchScope scope, batch_scope(cost, request));
  const Pool pool(cost, scope.nodes, request.idle_unit);
  NearbyBatches nearby;
  for (const int lbs : scope.local_batch_sizes) {
    const int workers = request.gbs / lbs;
    const WorkerSet totals = reachable_workers(cost, pool, lbs, request.unit, idle_of(request), workers);
    // gbs / lbs itself is a neighbour below when it was rounded down.
    const auto below = nearest_below(totals, request.gbs % lbs == 0 ? workers : workers + 1);
    const auto above = nearest_above(totals, workers);
    if (below) nearby.below = std::max(nearby.below.value_or(0), *below * lbs);
    if (above && std::int64_t{*above} * lbs <= INT32_MAX) {
      nearby.above = std::min(nearby.above.value_or(INT32_MAX), *above * lbs);
    }
  }
  return nearby;
}

Result<BatchSolution> solve_batch(const BatchCost& cost, const BatchRequest& request) {
  YOKE_TRY(const BatchScope scope, batch_scope(cost, request));
  const Pool pool(cost, scope.nodes, request.idle_unit);
  const Counts all = pool.everything();
  const Sync sync = request.sync.value_or(cost.recommended_sync());

  std::optional<Choice> best;
  StepSetting setting{.lbs = 0, .sync = sync, .unit = request.unit};
  bool proven = true;
  for (const int lbs : scope.local_batch_sizes) {
    if (request.gbs % lbs != 0) continue;
    const StepSetting tried{.lbs = lbs, .sync = sync, .unit = request.unit};
    const double below = best ? best->deal.seconds : std::numeric_limits<double>::infinity();
    const int workers = request.gbs / lbs;
    ChoiceSearch found = request.idle_unit
                             ? choose_devices(cost, pool, tried, workers, below)
                             : ChoiceSearch{.best = deal_to(cost, pool, all, tried, workers, below), .proven = true};
    proven = proven && found.proven;
    if (!found.best) continue;
    best = std::move(found.best);
    setting = tried;
  }
  if (!best) {
    YOKE_TRY(const NearbyBatches nearby, nearby_batches(cost, request));
    return infeasible_error(fmt::format("no way to run a global batch of {} on {} devices: {}; {}", request.gbs,
                                        pool.devices(all), binding_limit(cost, pool, scope, request),
                                        nearby_text(nearby)));
  }
  return BatchSolution{.gbs = request.gbs,
                       .lbs = setting.lbs,
                       .workers = request.gbs / setting.lbs,
                       .sync = sync,
                       .step_seconds = best->deal.seconds,
                       .samples_per_second = request.gbs / best->deal.seconds,
                       .extent = best->extent,
                       .lanes = lanes_of(cost, pool, *best, setting),
                       .equal_split = equal_split(cost, pool, scope, sync, request.gbs),
                       .proven = proven};
}

}  // namespace yoke::plan
