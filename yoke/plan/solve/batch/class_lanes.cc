#include "yoke/plan/solve/batch/class_lanes.h"

#include <algorithm>
#include <cmath>

namespace yoke::plan {

ClassLanes::ClassLanes(const BatchCost& cost, int device_class, int lbs, Sync sync, Extent extent, int most_workers)
    : lbs_(lbs), most_workers_(most_workers) {
  const int most_vsw = std::min(cost.max_vsw(device_class, lbs), most_workers);
  base::require(most_vsw >= 1, "a class that cannot run a worker has no lanes");
  for (int vsw = 1; vsw <= most_vsw; ++vsw) by_vsw_.push_back(cost.lane(device_class, lbs, vsw, sync, extent));
}

int ClassLanes::rounds_within(int vsw, double seconds) const {
  const LaneCost& cost = lane(vsw);
  const int most = most_workers_ / vsw;
  if (cost.first_round > seconds) return 0;
  const double further = (seconds - cost.first_round) / cost.further_round;
  int ga = further >= most - 1 ? most - 1 : static_cast<int>(further);  // also when further_round is 0
  // The division may be off by a rounding; the lane's own time decides.
  while (ga > 0 && cost.seconds(ga) > seconds) --ga;
  while (ga + 1 < most && cost.seconds(ga + 1) <= seconds) ++ga;
  return ga + 1;
}

int ClassLanes::most_within(double seconds) const {
  int most = 0;
  for (int vsw = 1; vsw <= vsw_count(); ++vsw) most = std::max(most, vsw * rounds_within(vsw, seconds));
  return most;
}

int ClassLanes::least_within(double seconds) const {
  for (int vsw = 1; vsw <= vsw_count(); ++vsw) {
    if (lane(vsw).first_round <= seconds) return vsw;
  }
  return 0;
}

int ClassLanes::every_count_within(double seconds) const {
  return rounds_within(1, seconds);
}

WorkerSet ClassLanes::counts_within(double seconds, int limit) const {
  WorkerSet counts(std::min(limit, most_within(seconds)));
  for (int vsw = 1; vsw <= vsw_count(); ++vsw) counts.insert_multiples(vsw, rounds_within(vsw, seconds));
  return counts;
}

double ClassLanes::candidate_within(double seconds) const {
  double best = 0;
  for (int vsw = 1; vsw <= vsw_count(); ++vsw) {
    const int rounds = rounds_within(vsw, seconds);
    if (rounds > 0) best = std::max(best, lane(vsw).seconds(rounds - 1));
  }
  return best;
}

double ClassLanes::candidate_above(double seconds) const {
  double best = std::numeric_limits<double>::infinity();
  for (int vsw = 1; vsw <= vsw_count(); ++vsw) {
    const int rounds = rounds_within(vsw, seconds);
    if (rounds < most_workers_ / vsw) best = std::min(best, lane(vsw).seconds(rounds));
  }
  return best;
}

double ClassLanes::slowest() const {
  double slowest = 0;
  for (int vsw = 1; vsw <= vsw_count(); ++vsw) slowest = std::max(slowest, lane(vsw).seconds(most_workers_ / vsw - 1));
  return slowest;
}

double ClassLanes::least_overhead() const {
  double least = std::numeric_limits<double>::infinity();
  for (const LaneCost& cost : by_vsw_) least = std::min(least, cost.first_round - cost.further_round);
  return least;
}

LaneWork ClassLanes::fastest(int workers) const {
  LaneWork best{.lbs = lbs_, .vsw = 1, .ga = workers - 1};
  for (int vsw = 2; vsw <= std::min(workers, vsw_count()); ++vsw) {
    if (workers % vsw != 0) continue;
    const LaneWork work{.lbs = lbs_, .vsw = vsw, .ga = workers / vsw - 1};
    if (seconds(work) < seconds(best)) best = work;
  }
  return best;
}

}  // namespace yoke::plan
