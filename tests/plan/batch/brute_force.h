// The batch problem solved by trying everything: which nodes' granules are used, and every dealing of the workers.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "yoke/plan/solve/batch/batch.h"

namespace yoke::plan::testing {

struct BruteUnit {
  int device_class;
  int size;
};

/// The shortest step that deals exactly `workers` to the units, each device at least one.
inline std::optional<double> brute_deal(const BatchCost& cost, const std::vector<BruteUnit>& units, Extent extent,
                                        int lbs, Sync sync, int workers) {
  const auto lane_seconds = [&](int device_class, int count) -> std::optional<double> {
    std::optional<double> best;
    for (int vsw = 1; vsw <= std::min(count, cost.max_vsw(device_class, lbs)); ++vsw) {
      if (count % vsw != 0) continue;
      const LaneWork work{.lbs = lbs, .vsw = vsw, .ga = count / vsw - 1};
      const double seconds = cost.step_seconds(device_class, work, sync, extent);
      if (!best || seconds < *best) best = seconds;
    }
    return best;
  };
  std::optional<double> best;
  const std::function<void(std::size_t, int, double)> place = [&](std::size_t at, int left, double slowest) {
    if (best && slowest >= *best) return;
    if (at == units.size()) {
      if (left == 0) best = slowest;
      return;
    }
    for (int count = 1; count * units[at].size <= left; ++count) {
      if (const auto seconds = lane_seconds(units[at].device_class, count)) {
        place(at + 1, left - count * units[at].size, std::max(slowest, *seconds));
      }
    }
  };
  if (!units.empty()) place(0, workers, 0);
  return best;
}

struct BruteAnswer {
  double seconds;
  int lbs;
  int devices;
};

/// By the rules of solve_batch(): ties go to the smaller lbs, then to fewer devices.
inline std::optional<BruteAnswer> brute_solve(const BatchCost& cost, const BatchRequest& request) {
  const auto scope = batch_scope(cost, request).value();
  struct Part {
    int node, device_class, devices;
  };
  std::vector<Part> parts;
  for (const int node : scope.nodes) {
    const int devices = cost.cluster().nodes()[static_cast<std::size_t>(node)].devices;
    const int step = std::min(devices, request.idle_unit.value_or(devices));
    for (int first = 0; first < devices; first += step) {
      parts.push_back({node, cost.node_classes()[static_cast<std::size_t>(node)], std::min(step, devices - first)});
    }
  }
  const Sync sync = request.sync.value_or(cost.recommended_sync());
  std::optional<BruteAnswer> best;
  for (const int lbs : scope.local_batch_sizes) {
    if (request.gbs % lbs != 0) continue;
    const unsigned every = (1U << parts.size()) - 1;
    for (unsigned used = request.idle_unit ? 1 : every; used <= every; ++used) {
      std::vector<BruteUnit> units;
      std::map<int, int> per_node;  // devices
      Extent extent{.devices = 0, .across_nodes = false};
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if ((used >> i & 1) == 0) continue;
        extent.devices += parts[i].devices;
        ++per_node[parts[i].node];
        for (int first = 0; first < parts[i].devices; first += request.unit) {
          units.push_back({parts[i].device_class, std::min(request.unit, parts[i].devices - first)});
        }
      }
      extent.across_nodes = per_node.size() > 1;
      const auto seconds = brute_deal(cost, units, extent, lbs, sync, request.gbs / lbs);
      if (!seconds) continue;
      const bool better = !best || *seconds < best->seconds ||
                          (*seconds == best->seconds && lbs == best->lbs && extent.devices < best->devices);
      if (better) best = {*seconds, lbs, extent.devices};
    }
  }
  return best;
}

}  // namespace yoke::plan::testing
