#include "yoke/plan/solve/batch/choose.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace yoke::plan {
namespace {

/// Branch and bound over the counts per kind. The all-reduce, hence every lane time, depends on a choice only through
/// its number of devices (and on whether it leaves one node), so choices are searched by that number, the most
/// promising number first, until no number left can beat the best step found.
class DeviceSearch {
 public:
  DeviceSearch(const BatchCost& cost, const Pool& pool, const StepSetting& setting, int workers, double below,
               int most_choices)
      : cost_(cost), pool_(pool), setting_(setting), workers_(workers), below_(below), choices_left_(most_choices) {
    for (std::size_t i = 0; i < pool.kinds().size(); ++i) {
      if (cost.max_vsw(pool.kinds()[i].device_class, setting.lbs) > 0) usable_.push_back(i);
    }
  }

  ChoiceSearch run() {
    for (const Counts& counts : pool_.single_node_choices()) consider(counts);
    for (const auto& [bound, devices] : promising_sizes()) {
      if (!may_improve(bound, devices)) continue;
      search(devices, bound);
    }
    return {.best = std::move(best_), .proven = choices_left_ > 0};
  }

 private:
  struct Bounds {
    int devices = 0;
    std::vector<std::size_t> order;  // usable kinds, those that run most first
    std::vector<std::int64_t> most;  // workers of one device, in that order
    std::vector<int> devices_from;   // all devices of order[i], order[i + 1], ..
  };

  bool may_improve(double seconds, int devices) const {
    if (!best_) return seconds < below_;
    return seconds < best_->deal.seconds || (seconds == best_->deal.seconds && devices < best_->extent.devices);
  }

  /// The bound a further choice of `devices` has to stay under.
  double limit(int devices) const {
    if (!best_) return below_;
    const double seconds = best_->deal.seconds;
    return devices < best_->extent.devices ? std::nextafter(seconds, below_) : seconds;
  }

  void consider(const Counts& counts) {
    const bool usable = std::all_of(counts.begin(), counts.end(), [&, i = std::size_t{0}](int count) mutable {
      const auto kind = i++;
      return count == 0 || cost_.max_vsw(pool_.kinds()[kind].device_class, setting_.lbs) > 0;
    });
    const int devices = pool_.devices(counts);
    if (!usable || devices > workers_) return;
    if (auto found = deal_to(cost_, pool_, counts, setting_, workers_, limit(devices))) best_ = std::move(found);
  }

  /// Lanes of every usable kind when `devices` on several nodes take part.
  std::vector<ClassLanes> lanes(int devices) const {
    std::vector<ClassLanes> result;
    for (const std::size_t i : usable_) {
      result.emplace_back(cost_, pool_.kinds()[i].device_class, setting_.lbs, setting_.sync,
                          Extent{.devices = devices, .across_nodes = true}, workers_);
    }
    return result;
  }

  Bounds bounds(const std::vector<ClassLanes>& lanes, int devices, double seconds) const {
    std::vector<std::int64_t> most(usable_.size());
    for (std::size_t i = 0; i < usable_.size(); ++i) most[i] = lanes[i].most_within(seconds);
    std::vector<std::size_t> order(usable_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return most[a] > most[b]; });
    Bounds result{.devices = devices, .order = {}, .most = {}, .devices_from = std::vector<int>(order.size() + 1, 0)};
    for (const std::size_t i : order) {
      result.order.push_back(usable_[i]);
      result.most.push_back(most[i]);
    }
    for (std::size_t i = order.size(); i-- > 0;) {
      const GranuleKind& kind = pool_.kinds()[result.order[i]];
      result.devices_from[i] = result.devices_from[i + 1] + kind.count() * kind.devices;
    }
    return result;
  }

  /// Numbers of devices with a lower bound of their step, shortest first (ties: fewer devices).
  std::vector<std::pair<double, int>> promising_sizes() const {
    WorkerSet sizes(std::min(workers_, pool_.devices(pool_.everything())));
    sizes.insert(0);
    for (const std::size_t i : usable_) {
      const GranuleKind& kind = pool_.kinds()[i];
      WorkerSet multiples(kind.count() * kind.devices);
      multiples.insert(0);
      multiples.insert_multiples(kind.devices, kind.count());
      sizes = WorkerSet::sums(sizes, multiples, std::min(workers_, pool_.devices(pool_.everything())));
    }
    std::vector<std::pair<double, int>> result;
    for (int devices = 1; devices <= sizes.limit(); ++devices) {
      if (!sizes.contains(devices)) continue;
      const double bound = lower_bound(devices);
      if (may_improve(bound, devices)) result.emplace_back(bound, devices);
    }
    std::sort(result.begin(), result.end());
    return result;
  }

  /// No choice of so many devices takes less. To a relative 1e-3 below the exact bound: it only orders and prunes.
  double lower_bound(int devices) const {
    const std::vector<ClassLanes> offered = lanes(devices);
    const auto enough = [&](double seconds) {
      return most_workers(bounds(offered, devices, seconds), 0, devices) >= workers_;
    };
    double low = 0;
    double high = offered.empty() ? 0 : offered.front().slowest();
    for (const ClassLanes& lane : offered) high = std::max(high, lane.slowest());
    const double most = std::min(high, limit(devices));
    if (!enough(most)) return std::numeric_limits<double>::infinity();
    high = most;
    while (high - low > 1e-3 * high) {
      const double middle = low + (high - low) / 2;
      (enough(middle) ? high : low) = middle;
    }
    return low;
  }

  void search(int devices, double level) {
    const std::vector<ClassLanes> offered = lanes(devices);
    // The order is that of the level, where the kinds differ; the bound is that of the best step so far.
    Bounds ordered = bounds(offered, devices, level * (1 + 2e-3));
    const auto tighten = [&] {
      for (std::size_t i = 0; i < ordered.order.size(); ++i) {
        const auto at = std::find(usable_.begin(), usable_.end(), ordered.order[i]) - usable_.begin();
        ordered.most[i] = offered[static_cast<std::size_t>(at)].most_within(std::nextafter(limit(devices), 0.0));
      }
    };
    tighten();
    Counts counts(pool_.kinds().size(), 0);
    descend(ordered, 0, devices, 0, counts, tighten);
  }

  template <typename Tighten>
  void descend(Bounds& bounds, std::size_t at, int devices, std::int64_t most, Counts& counts, const Tighten& tighten) {
    if (choices_left_ <= 0 || devices > bounds.devices_from[at]) return;
    if (devices == 0) {
      if (!pool_.extent(counts).across_nodes) return;  // seen among the single nodes
      --choices_left_;
      const double before = limit(bounds.devices);
      consider(counts);
      if (limit(bounds.devices) < before) tighten();
      return;
    }
    const GranuleKind& kind = pool_.kinds()[bounds.order[at]];
    for (int count = std::min(kind.count(), devices / kind.devices); count >= 0; --count) {
      const int left = devices - count * kind.devices;
      const std::int64_t with_these = most + count * kind.devices * bounds.most[at];
      if (with_these + most_workers(bounds, at + 1, left) < workers_) continue;
      counts[bounds.order[at]] = count;
      descend(bounds, at + 1, left, with_these, counts, tighten);
    }
    counts[bounds.order[at]] = 0;
  }

  /// The most workers that `devices` of the kinds from `first` on can run; granules may be split, so it is a bound.
  std::int64_t most_workers(const Bounds& bounds, std::size_t first, int devices) const {
    std::vector<std::pair<std::int64_t, int>> offers;  // workers of one device, devices
    for (std::size_t i = first; i < bounds.order.size(); ++i) {
      const GranuleKind& kind = pool_.kinds()[bounds.order[i]];
      offers.emplace_back(bounds.most[i], kind.count() * kind.devices);
    }
    std::sort(offers.rbegin(), offers.rend());
    std::int64_t most = 0;
    for (const auto& [workers, available] : offers) {
      const int taken = std::min(devices, available);
      most += taken * workers;
      devices -= taken;
    }
    return most;
  }

  const BatchCost& cost_;
  const Pool& pool_;
  const StepSetting setting_;
  const int workers_;
  const double below_;
  int choices_left_;
  std::vector<std::size_t> usable_;  // kinds whose class can run the local batch size
  std::optional<Choice> best_;
};

}  // namespace

std::vector<UnitGroup> unit_groups(const Pool& pool, const Counts& counts, int unit) {
  std::vector<UnitGroup> groups;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const GranuleKind& kind = pool.kinds()[i];
    for (const int size : unit_sizes(kind.devices, unit)) {
      const int count = counts[i] * (size == unit ? kind.devices / unit : 1);
      const auto found = std::find_if(groups.begin(), groups.end(), [&](const UnitGroup& group) {
        return group.device_class == kind.device_class && group.size == size;
      });
      if (found != groups.end()) {
        found->count += count;
      } else {
        groups.push_back({.device_class = kind.device_class, .size = size, .count = count});
      }
    }
  }
  return groups;
}

std::optional<Choice> deal_to(const BatchCost& cost, const Pool& pool, const Counts& counts, const StepSetting& setting,
                              int workers, double below) {
  Choice choice{
      .counts = counts, .extent = pool.extent(counts), .groups = unit_groups(pool, counts, setting.unit), .deal = {}};
  if (choice.groups.empty() || choice.extent.devices > workers) return std::nullopt;
  std::vector<ClassLanes> lanes;
  lanes.reserve(choice.groups.size());
  std::vector<LaneGroup> groups;
  for (const UnitGroup& group : choice.groups) {
    if (cost.max_vsw(group.device_class, setting.lbs) == 0) return std::nullopt;
    lanes.emplace_back(cost, group.device_class, setting.lbs, setting.sync, choice.extent, workers);
    groups.push_back({.lanes = &lanes.back(), .size = group.size, .count = group.count});
  }
  std::optional<Deal> deal = deal_workers(groups, workers, below);
  if (!deal) return std::nullopt;
  choice.deal = *std::move(deal);
  return choice;
}

ChoiceSearch choose_devices(const BatchCost& cost, const Pool& pool, const StepSetting& setting, int workers,
                            double below, int most_choices) {
  return DeviceSearch(cost, pool, setting, workers, below, most_choices).run();
}

}  // namespace yoke::plan
