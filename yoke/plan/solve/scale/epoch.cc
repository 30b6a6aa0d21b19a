#include "yoke/plan/solve/scale/epoch.h"

#include <algorithm>
#include <cmath>

#include "yoke/plan/solve/batch/choose.h"
#include "yoke/plan/solve/batch/deal.h"

namespace yoke::plan {

std::vector<Load> make_loads(const std::vector<int>& local_batch_sizes, std::span<const double> trajectory,
                             std::int64_t samples, int first_steps, int interval) {
  std::vector<Load> loads;
  double left = static_cast<double>(samples);
  for (std::size_t i = 0; i < trajectory.size() && left > 0; ++i) {
    const double gbs = trajectory[i];
    const double all_left = std::ceil(left / gbs);
    const bool last = i + 1 == trajectory.size();
    const double steps = last ? all_left : std::min<double>(i == 0 ? first_steps : interval, all_left);
    Load load{.samples = std::min(steps * gbs, left), .workers = {}, .least_gbs = gbs, .most_gbs = gbs};
    for (const int lbs : local_batch_sizes) {
      load.workers.push_back(static_cast<int>(std::max(1.0, std::nearbyint(gbs / lbs))));
    }
    left -= load.samples;
    const auto same =
        std::find_if(loads.begin(), loads.end(), [&](const Load& other) { return other.workers == load.workers; });
    if (same != loads.end()) {
      same->samples += load.samples;
      same->least_gbs = std::min(same->least_gbs, gbs);
      same->most_gbs = std::max(same->most_gbs, gbs);
    } else if (load.samples > 0) {
      loads.push_back(std::move(load));
    }
  }
  return loads;
}

EpochCost::EpochCost(const BatchCost& cost, const Pool& pool, Sync sync, std::vector<Load> loads)
    : cost_(cost), pool_(pool), sync_(sync), loads_(std::move(loads)) {
  for (std::size_t i = 0; i < local_batch_sizes().size(); ++i) {
    int most = 1;
    for (const Load& load : loads_) most = std::max(most, load.workers[i]);
    most_workers_.push_back(most);
  }
  for (const GranuleKind& kind : pool.kinds()) {
    double rate = 0;
    for (std::size_t i = 0; i < local_batch_sizes().size(); ++i) {
      const int lbs = local_batch_sizes()[i];
      for (int vsw = 1; vsw <= std::min(cost.max_vsw(kind.device_class, lbs), most_workers_[i]); ++vsw) {
        const LaneCost lane = cost.lane(kind.device_class, lbs, vsw, sync, {});
        // A cost model may call rounds free; a device of finite, huge rate is as good.
        rate = std::max(rate, lbs * vsw / std::max(lane.further_round, 1e-12));
      }
    }
    most_rates_.push_back(rate);
  }
}

const ClassLanes* EpochCost::lanes(std::size_t kind, std::size_t lbs_index, Extent extent) {
  auto [found, added] = tables_.try_emplace(extent);
  Table& table = found->second;
  if (added) {
    const auto& classes = cost_.node_classes();
    table.resize(static_cast<std::size_t>(*std::max_element(classes.begin(), classes.end())) + 1);
    for (const GranuleKind& each : pool_.kinds()) {
      auto& row = table[static_cast<std::size_t>(each.device_class)];
      if (!row.empty()) continue;
      for (std::size_t i = 0; i < local_batch_sizes().size(); ++i) {
        const int lbs = local_batch_sizes()[i];
        row.emplace_back();
        if (cost_.max_vsw(each.device_class, lbs) > 0) {
          row.back().emplace(cost_, each.device_class, lbs, sync_, extent, most_workers_[i]);
        }
      }
    }
  }
  const auto& entry = table[static_cast<std::size_t>(pool_.kinds()[kind].device_class)][lbs_index];
  return entry ? &*entry : nullptr;
}

double EpochCost::least_overhead(int devices) {
  double least = std::numeric_limits<double>::infinity();
  const Extent extent{.devices = devices, .across_nodes = true};
  for (std::size_t kind = 0; kind < pool_.kinds().size(); ++kind) {
    for (std::size_t i = 0; i < local_batch_sizes().size(); ++i) {
      if (const ClassLanes* offered = lanes(kind, i, extent)) least = std::min(least, offered->least_overhead());
    }
  }
  return least;
}

std::optional<LoadRun> EpochCost::run(const Load& load, const Counts& counts, Extent extent, double below) {
  std::optional<LoadRun> best;
  for (std::size_t i = 0; i < local_batch_sizes().size(); ++i) {
    if (load.workers[i] < extent.devices) continue;
    std::vector<LaneGroup> groups;
    for (std::size_t kind = 0; kind < counts.size(); ++kind) {
      if (counts[kind] == 0) continue;
      groups.push_back(
          {.lanes = lanes(kind, i, extent), .size = 1, .count = counts[kind] * pool_.kinds()[kind].devices});
      if (groups.back().lanes == nullptr) break;
    }
    if (groups.empty() || groups.back().lanes == nullptr) continue;
    const double gbs = static_cast<double>(load.workers[i]) * local_batch_sizes()[i];
    if (const auto step = deal_seconds(groups, load.workers[i], below * gbs)) {
      below = *step / gbs;
      best = LoadRun{.lbs_index = i, .step_seconds = *step};
    }
  }
  return best;
}

std::optional<double> EpochCost::seconds(const Counts& counts, double below) {
  const Extent extent = pool_.extent(counts);
  double total = 0;
  for (const Load& load : loads_) {
    const auto found = run(load, counts, extent, (below - total) / load.samples);
    if (!found) return std::nullopt;
    const double gbs = static_cast<double>(load.workers[found->lbs_index]) * local_batch_sizes()[found->lbs_index];
    total += found->step_seconds / gbs * load.samples;
    if (total >= below) return std::nullopt;
  }
  return total;
}

std::vector<LoadRun> EpochCost::runs(const Counts& counts) {
  std::vector<LoadRun> result;
  for (const Load& load : loads_) {
    const auto found = run(load, counts, pool_.extent(counts), std::numeric_limits<double>::infinity());
    base::require(found.has_value(), "a candidate that was priced does not run");
    result.push_back(*found);
  }
  return result;
}

}  // namespace yoke::plan
