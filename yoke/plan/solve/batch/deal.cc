#include "yoke/plan/solve/batch/deal.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>

namespace yoke::plan {
namespace {

/// The totals that `count` units reach with the worker counts of one set, for the counts that halving needs.
class GroupSums {
 public:
  GroupSums(WorkerSet counts, int limit) : limit_(limit) { sums_.emplace(1, std::move(counts)); }

  const WorkerSet& of(int count) {
    const auto found = sums_.find(count);
    if (found != sums_.end()) return found->second;
    const WorkerSet& half = of(count / 2);
    const WorkerSet& rest = of(count - count / 2);
    return sums_.emplace(count, WorkerSet::sums(half, rest, limit_)).first->second;
  }

  /// Splits a reachable total over `count` units, as equally as the set allows.
  void split(int count, int total, std::vector<int>& workers) {
    if (count == 1) {
      workers.push_back(total);
      return;
    }
    const int half = count / 2;
    const WorkerSet& left = of(half);
    const WorkerSet& right = of(count - half);
    const int middle = static_cast<int>(std::int64_t{total} * half / count);
    for (int away = 0;; ++away) {
      for (const int part : {middle - away, middle + away}) {
        if (!left.contains(part) || !right.contains(total - part)) continue;
        split(half, part, workers);
        split(count - half, total - part, workers);
        return;
      }
      base::require(away <= total, "a total that was reached cannot be split");
    }
  }

 private:
  int limit_;
  std::map<int, WorkerSet> sums_;  // a map: references stay valid
};

class Dealer {
 public:
  Dealer(std::span<const LaneGroup> groups, int workers, double below)
      : groups_(groups.begin(), groups.end()), workers_(workers) {
    int devices = 0;
    bool one_size = true;
    for (const LaneGroup& group : groups_) {
      devices += group.size * group.count;
      one_size = one_size && group.size == groups_.front().size;
      ceiling_ = std::max(ceiling_, group.lanes->slowest());
    }
    ceiling_ = std::min(ceiling_, std::nextafter(below, 0.0));
    possible_ = workers >= devices;
    if (one_size && !groups_.empty()) {
      // Count workers per device of a unit: then every group has units of one.
      const int size = groups_.front().size;
      possible_ = possible_ && workers % size == 0;
      workers_ = workers / size;
      for (LaneGroup& group : groups_) group.size = 1;
      units_of_one_ = true;
    }
  }

  /// Asks only that the devices could together run the workers or more; much faster than the exact time.
  std::optional<double> lower_bound() const {
    if (!possible_) return std::nullopt;
    const auto enough = [this](double seconds) { return could_reach(seconds); };
    if (!enough(ceiling_)) return std::nullopt;
    double start = 0;
    for (const LaneGroup& group : groups_) start = std::max(start, group.lanes->candidate_above(0));
    return smallest(start, enough);
  }

  /// The exact time, given lower_bound().
  std::optional<double> seconds(double bound) const {
    if (!reaches(ceiling_)) return std::nullopt;
    return smallest(bound, [this](double within) { return reaches(within); });
  }

  std::optional<Deal> solve() const {
    const std::optional<double> bound = lower_bound();
    const std::optional<double> exact = bound ? seconds(*bound) : std::nullopt;
    if (!exact) return std::nullopt;
    return Deal{.seconds = *exact, .workers = deal(*exact, *bound)};
  }

 private:
  double candidate_above(double seconds) const {
    double best = std::numeric_limits<double>::infinity();
    for (const LaneGroup& group : groups_) best = std::min(best, group.lanes->candidate_above(seconds));
    return best;
  }

  double candidate_within(double seconds) const {
    double best = 0;
    for (const LaneGroup& group : groups_) best = std::max(best, group.lanes->candidate_within(seconds));
    return best;
  }

  /// The smallest candidate from `start` on that is enough. `enough` never turns false again as seconds grow, and holds
  /// at the ceiling.
  double smallest(double start, const std::function<bool(double)>& enough) const {
    if (start >= ceiling_) return candidate_within(ceiling_);
    if (enough(start)) return candidate_within(start);
    // Gallop, because the answer is nearly always close to the start; then halve.
    double low = start;
    double high = ceiling_;
    for (double step = candidate_above(start) - start; low + step < ceiling_; step *= 2) {
      if (enough(low + step)) {
        high = low + step;
        break;
      }
      low += step;
    }
    high = candidate_within(high);
    for (double next = candidate_above(low); next < high; next = candidate_above(low)) {
      double middle = std::max(next, low + (high - low) / 2);
      if (middle >= high) middle = next;
      if (enough(middle)) {
        high = candidate_within(middle);
      } else {
        low = middle;
      }
    }
    return high;
  }

  /// Necessary for reaches(), and cheap: the total lies between the fewest and the most workers.
  bool could_reach(double seconds) const {
    std::int64_t least = 0;
    std::int64_t most = 0;
    for (const LaneGroup& group : groups_) {
      const int group_most = group.lanes->most_within(seconds);
      if (group_most == 0) return false;
      const std::int64_t devices = std::int64_t{group.size} * group.count;
      least += devices * group.lanes->least_within(seconds);
      most += devices * group_most;
    }
    return least <= workers_ && workers_ <= most;
  }

  /// Sufficient for reaches(), and cheap: every device can run each count from one up to some number.
  bool surely_reaches(double seconds) const {
    if (!units_of_one_) return false;
    std::int64_t most = 0;
    for (const LaneGroup& group : groups_) {
      const int every = group.lanes->every_count_within(seconds);
      if (every == 0) return false;
      most += std::int64_t{group.count} * every;
    }
    return workers_ <= most;
  }

  /// Whether the devices can run exactly the workers within the time.
  bool reaches(double seconds) const {
    if (!could_reach(seconds)) return false;
    if (surely_reaches(seconds)) return true;
    WorkerSet totals(0);
    totals.insert(0);
    for (const LaneGroup& group : groups_) {
      GroupSums sums = group_sums(group, seconds);
      totals = WorkerSet::sums(totals, sums.of(group.count).times(group.size, workers_), workers_);
    }
    return totals.contains(workers_);
  }

  GroupSums group_sums(const LaneGroup& group, double seconds) const {
    const int limit = workers_ / group.size;
    return GroupSums(group.lanes->counts_within(seconds, limit), limit);
  }

  /// A dealing within `seconds`; `level` is the time at which the devices could together just run enough.
  std::vector<std::vector<int>> deal(double seconds, double level) const {
    std::vector<GroupSums> sums;
    std::vector<WorkerSet> group_totals;
    std::vector<WorkerSet> totals(1, WorkerSet(0));  // [i]: what the first i groups reach together
    std::vector<double> ability(1, 0);               // [i]: what they could do at the level
    totals.front().insert(0);
    for (const LaneGroup& group : groups_) {
      sums.push_back(group_sums(group, seconds));
      group_totals.push_back(sums.back().of(group.count).times(group.size, workers_));
      totals.push_back(WorkerSet::sums(totals.back(), group_totals.back(), workers_));
      ability.push_back(ability.back() + double{1} * group.size * group.count * group.lanes->most_within(level));
    }
    std::vector<std::vector<int>> result(groups_.size());
    int left = workers_;
    for (std::size_t i = groups_.size(); i-- > 0;) {
      const LaneGroup& group = groups_[i];
      const double fair = left * (ability[i + 1] - ability[i]) / ability[i + 1];
      const int share = nearest(static_cast<int>(std::lround(fair)), left, [&](int part) {
        return group_totals[i].contains(part) && totals[i].contains(left - part);
      });
      sums[i].split(group.count, share / group.size, result[i]);
      std::sort(result[i].rbegin(), result[i].rend());
      left -= share;
    }
    return result;
  }

  static int nearest(int wanted, int most, const std::function<bool(int)>& allowed) {
    for (int away = 0; away <= most; ++away) {
      if (allowed(wanted - away)) return wanted - away;
      if (allowed(wanted + away)) return wanted + away;
    }
    base::require(false, "a total that was reached cannot be dealt");
    return 0;
  }

  std::vector<LaneGroup> groups_;
  int workers_;
  double ceiling_ = 0;  // nothing slower is of interest
  bool possible_ = false;
  bool units_of_one_ = false;
};

}  // namespace

std::optional<Deal> deal_workers(std::span<const LaneGroup> groups, int workers, double below) {
  if (groups.empty()) return std::nullopt;
  return Dealer(groups, workers, below).solve();
}

std::optional<double> deal_seconds(std::span<const LaneGroup> groups, int workers, double below) {
  if (groups.empty()) return std::nullopt;
  const Dealer dealer(groups, workers, below);
  const std::optional<double> bound = dealer.lower_bound();
  return bound ? dealer.seconds(*bound) : std::nullopt;
}

}  // namespace yoke::plan
