// Lower bounds for the auto-scaling search: what an epoch takes and costs at least when some kinds of granules are
// decided and the rest of a fixed number of devices may still be of any undecided kind.
//
// For each load and local batch size there is a ladder of step times. Within each rung a device of each kind runs only
// so many workers: a choice that cannot run them all takes longer than the rung, and a choice that can needs devices
// worth at least what the cheapest sufficient ones (taken by price per worker) cost.
#pragma once

#include <vector>

#include "yoke/plan/solve/scale/epoch.h"
#include "yoke/plan/solve/batch/pool.h"

namespace yoke::plan {

/// The first `decided` kinds of `order` have their counts; `left` devices are still to be taken from the others.
struct PartialChoice {
  const Counts& counts;
  std::size_t decided = 0;
  int left = 0;
  double price = 0;        // per hour, of what is decided
  double least_price = 0;  // of any completion
};

class ScaleBound {
 public:
  /// For choices of `devices` on several nodes. `prices` are of one device of each kind. All arguments are borrowed.
  ScaleBound(EpochCost& epoch, const Pool& pool, const std::vector<double>& prices,
             const std::vector<std::size_t>& order, int devices);

  /// Whether any choice of so many devices might run every load.
  bool possible() const { return possible_; }
  /// Of the epoch.
  double seconds(const PartialChoice& choice) const;
  /// Seconds of the epoch times price per hour.
  double seconds_price(const PartialChoice& choice) const;

 private:
  struct Rung {
    double seconds = 0;
    std::vector<double> most;           // workers of one device, per kind
    std::vector<std::size_t> by_most;   // kinds that run any, those that run most first
    std::vector<std::size_t> by_price;  // the same, least price per worker first
  };
  struct Ladder {
    double gbs = 0;
    double workers = 0;
    std::vector<bool> runs;  // per kind, at any time
    std::vector<Rung> rungs;
  };

  void add_ladder(int workers, std::size_t lbs_index, Extent extent);
  bool runs(const Ladder& ladder, const Counts& counts) const;
  /// Workers that the decided kinds run; negative when one of them runs none.
  double decided_workers(const Rung& rung, const PartialChoice& choice) const;
  bool suffices(const Ladder& ladder, const Rung& rung, const PartialChoice& choice) const;
  double step_seconds(const Ladder& ladder, const PartialChoice& choice) const;
  double step_seconds_price(const Ladder& ladder, const PartialChoice& choice) const;
  /// The least price of devices that run the workers within the rung; infinity when none do.
  double sufficient_price(const Ladder& ladder, const Rung& rung, const PartialChoice& choice) const;

  EpochCost& epoch_;
  const Pool& pool_;
  const std::vector<double>& prices_;
  const std::vector<std::size_t>& order_;
  std::vector<std::size_t> rank_;  // place of a kind in the order
  std::vector<int> kind_devices_;  // all devices of a kind
  std::vector<std::vector<Ladder>> loads_;
  bool possible_ = true;
};

}  // namespace yoke::plan
