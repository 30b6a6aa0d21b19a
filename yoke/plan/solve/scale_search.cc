#include "yoke/plan/solve/scale_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace yoke::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Lower bounds of the epoch for choices of one number of devices on several nodes. For each load and local batch size
/// there is a ladder of step times; a choice whose devices cannot together run the workers within a rung takes longer.
class CloseBound {
 public:
  CloseBound(EpochCost& epoch, const Pool& pool, int devices) : epoch_(epoch) {
    for (const GranuleKind& kind : pool.kinds()) granule_devices_.push_back(kind.devices);
    const Extent extent{.devices = devices, .across_nodes = true};
    for (const Load& load : epoch.loads()) {
      loads_.emplace_back();
      for (std::size_t i = 0; i < load.workers.size(); ++i) {
        if (load.workers[i] >= devices) add_ladder(pool, load.workers[i], i, extent);
      }
      possible_ = possible_ && !loads_.back().empty();
    }
  }

  /// Whether any choice of so many devices can run every load.
  bool possible() const { return possible_; }

  double seconds(const Counts& counts) const {
    double total = 0;
    for (std::size_t load = 0; load < loads_.size(); ++load) {
      double best = kNever;
      for (const Ladder& ladder : loads_[load]) best = std::min(best, step_bound(ladder, counts) / ladder.gbs);
      total += best * epoch_.loads()[load].samples;
    }
    return total;
  }

 private:
  static constexpr std::size_t kRungs = 64;
  static constexpr double kGrowth = 1.011;  // 64 rungs span a factor of two

  struct Ladder {
    double gbs = 0;
    double workers = 0;
    std::vector<bool> runs;       // per kind
    std::vector<double> seconds;  // rung by rung, ascending
    std::vector<double> most;     // workers of one granule: rung by rung, kind by kind
  };

  void add_ladder(const Pool& pool, int workers, std::size_t lbs_index, Extent extent) {
    const std::size_t kinds = pool.kinds().size();
    std::vector<const ClassLanes*> lanes;
    for (std::size_t kind = 0; kind < kinds; ++kind) lanes.push_back(epoch_.lanes(kind, lbs_index, extent));
    if (std::all_of(lanes.begin(), lanes.end(), [](const ClassLanes* of) { return of == nullptr; })) return;

    // The first rung is the longest time within which not even the fastest devices suffice.
    const auto fastest_suffice = [&](double seconds) {
      std::vector<std::pair<double, int>> offers;
      for (std::size_t kind = 0; kind < kinds; ++kind) {
        if (lanes[kind] == nullptr) continue;
        offers.emplace_back(lanes[kind]->most_within(seconds), pool.kinds()[kind].count() * granule_devices_[kind]);
      }
      std::sort(offers.rbegin(), offers.rend());
      double reached = 0;
      int left = extent.devices;
      for (const auto& [most, available] : offers) {
        const int taken = std::min(left, available);
        reached += taken * most;
        left -= taken;
      }
      return left == 0 && reached >= workers;
    };
    double low = 0;
    double high = 0;
    for (const ClassLanes* of : lanes) high = of == nullptr ? high : std::max(high, of->slowest());
    if (!fastest_suffice(high)) return;
    while (high - low > 1e-3 * high) {
      const double middle = low + (high - low) / 2;
      (fastest_suffice(middle) ? high : low) = middle;
    }
    Ladder ladder{.gbs = static_cast<double>(workers) * epoch_.local_batch_sizes()[lbs_index],
                  .workers = static_cast<double>(workers),
                  .runs = {},
                  .seconds = {},
                  .most = {}};
    for (const ClassLanes* of : lanes) ladder.runs.push_back(of != nullptr);
    for (std::size_t rung = 0; rung < kRungs; ++rung, low *= kGrowth) {
      ladder.seconds.push_back(low);
      for (std::size_t kind = 0; kind < kinds; ++kind) {
        const double most = lanes[kind] == nullptr ? 0 : lanes[kind]->most_within(low);
        ladder.most.push_back(most * granule_devices_[kind]);
      }
    }
    loads_.back().push_back(std::move(ladder));
  }

  static double step_bound(const Ladder& ladder, const Counts& counts) {
    const std::size_t kinds = counts.size();
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      if (counts[kind] > 0 && !ladder.runs[kind]) return kNever;
    }
    const auto suffices = [&](std::size_t rung) {
      double reached = 0;
      for (std::size_t kind = 0; kind < kinds; ++kind) {
        const double most = ladder.most[rung * kinds + kind];
        if (counts[kind] > 0 && most == 0) return false;  // each device needs a worker
        reached += counts[kind] * most;
      }
      return reached >= ladder.workers;
    };
    std::size_t insufficient = 0;
    for (std::size_t end = kRungs; end - insufficient > 1;) {
      const std::size_t middle = insufficient + (end - insufficient) / 2;
      (suffices(middle) ? end : insufficient) = middle;
    }
    return ladder.seconds[insufficient];
  }

  EpochCost& epoch_;
  std::vector<int> granule_devices_;
  std::vector<std::vector<Ladder>> loads_;
  bool possible_ = true;
};

/// Takes `devices` from the kinds in the given order; adds up `of_device`. Granules may be split: a bound.
double fill(const Pool& pool, const std::vector<std::size_t>& order, const std::vector<double>& of_device,
            std::size_t first_rank, const std::vector<std::size_t>& rank, int devices) {
  double sum = 0;
  for (const std::size_t kind : order) {
    if (rank[kind] < first_rank) continue;
    const int taken = std::min(devices, pool.kinds()[kind].count() * pool.kinds()[kind].devices);
    sum += taken * of_device[kind];
    devices -= taken;
    if (devices == 0) break;
  }
  return sum;
}

class ScaleSearch {
 public:
  ScaleSearch(EpochCost& epoch, const Pool& pool, const ScaleProblem& problem)
      : epoch_(epoch), pool_(pool), problem_(problem), left_(problem.effort) {
    const std::size_t kinds = pool.kinds().size();
    for (std::size_t kind = 0; kind < kinds; ++kind) rates_.push_back(epoch.most_rate(kind));
    for (const Load& load : epoch.loads()) {
      double gbs = 0;
      for (std::size_t i = 0; i < load.workers.size(); ++i) {
        gbs = std::max(gbs, static_cast<double>(load.workers[i]) * epoch.local_batch_sizes()[i]);
      }
      samples_ += load.samples;
      least_steps_ += load.samples / gbs;
    }
    const auto order_by = [&](auto key) {
      std::vector<std::size_t> order(kinds);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
      return order;
    };
    fastest_ = order_by([&](std::size_t kind) { return -rates_[kind]; });
    cheapest_ = order_by([&](std::size_t kind) { return problem.device_prices[kind]; });
    best_value_ = order_by([&](std::size_t kind) { return problem.device_prices[kind] / rates_[kind]; });
    order_ = problem.measure.by == ScaleMeasure::By::kCost ? best_value_ : fastest_;
    rank_.resize(kinds);
    for (std::size_t i = 0; i < kinds; ++i) rank_[order_[i]] = i;
    devices_from_.assign(kinds + 1, 0);
    for (std::size_t i = kinds; i-- > 0;) {
      const GranuleKind& kind = pool.kinds()[order_[i]];
      devices_from_[i] = devices_from_[i + 1] + kind.count() * kind.devices;
    }
  }

  ScaleSearchResult run() {
    if (problem_.present) solve(*problem_.present);
    for (const Counts& counts : pool_.single_node_choices()) solve(counts);
    std::vector<std::pair<double, int>> sizes;
    // Good candidates early make every bound bite: more devices are mostly faster, so begin with all.
    for (int devices = pool_.devices(pool_.everything()); devices > 0; --devices) {
      for (const auto* order : {&fastest_, &best_value_}) {
        if (const auto counts = greedy(*order, devices)) {
          const double seconds = loose_seconds(devices, rate_of(*counts));
          if (may_improve(seconds, price_of(*counts), devices)) solve(*counts);
        }
      }
      sizes.emplace_back(problem_.measure.value(size_seconds(devices), size_price(devices)), devices);
    }
    std::sort(sizes.begin(), sizes.end());
    for (const auto& [value, devices] : sizes) {
      if (!may_improve(size_seconds(devices), size_price(devices), devices)) continue;
      const CloseBound close(epoch_, pool_, devices);
      if (!close.possible()) continue;
      overhead_seconds_ = least_steps_ * epoch_.least_overhead(devices);
      Counts counts(pool_.kinds().size(), 0);
      descend(close, 0, devices, devices, 0, 0, counts);
    }
    return {.best = best_, .solved = problem_.effort.solves - left_.solves, .proven = !cut_};
  }

 private:
  double rate_of(const Counts& counts) const { return weighted(counts, rates_); }
  double price_of(const Counts& counts) const { return weighted(counts, problem_.device_prices); }
  double weighted(const Counts& counts, const std::vector<double>& of_device) const {
    double sum = 0;
    for (std::size_t kind = 0; kind < counts.size(); ++kind) {
      sum += counts[kind] * pool_.kinds()[kind].devices * of_device[kind];
    }
    return sum;
  }

  /// Every choice but the present one pays for the move; as bounds these hold for the present one's rivals only, which
  /// is all they are used for.
  double loose_seconds(int devices, double rate) {
    return problem_.move_seconds + samples_ / rate + least_steps_ * epoch_.least_overhead(devices);
  }
  double size_seconds(int devices) { return loose_seconds(devices, fill(pool_, fastest_, rates_, 0, rank_, devices)); }
  double size_price(int devices) const { return fill(pool_, cheapest_, problem_.device_prices, 0, rank_, devices); }

  bool may_improve(double seconds, double price, int devices) const {
    if (!problem_.measure.allows(seconds, price)) return false;
    if (!best_) return true;
    const double value = problem_.measure.value(seconds, price);
    if (value == best_->value && problem_.present == best_->counts) return false;
    return value < best_->value || (value == best_->value && devices < best_->devices);
  }

  /// As many granules as fit of each kind in turn; nullopt when that does not come out even.
  std::optional<Counts> greedy(const std::vector<std::size_t>& order, int devices) const {
    Counts counts(pool_.kinds().size(), 0);
    for (const std::size_t kind : order) {
      counts[kind] = std::min(pool_.kinds()[kind].count(), devices / pool_.kinds()[kind].devices);
      devices -= counts[kind] * pool_.kinds()[kind].devices;
    }
    if (devices > 0) return std::nullopt;
    return counts;
  }

  void solve(const Counts& counts) {
    if (left_.solves == 0) {
      cut_ = true;
      return;
    }
    --left_.solves;
    const double moving = problem_.present && *problem_.present != counts ? problem_.move_seconds : 0;
    const double price = price_of(counts);
    const int devices = pool_.devices(counts);
    // What the epoch must not exceed to be of use; a little more, so that ties are seen.
    double below = problem_.measure.most_seconds - moving;
    if (best_) {
      const double seconds = problem_.measure.by == ScaleMeasure::By::kSeconds ? best_->value
                             : price > 0                                       ? best_->value * 3600 / price
                                                                               : kNever;
      below = std::min(below, seconds - moving);
    }
    const auto epoch = epoch_.seconds(counts, below + 1e-9 * std::abs(below));
    if (!epoch) return;
    const double seconds = *epoch + moving;
    if (!may_improve(seconds, price, devices)) return;
    best_ = ScaleCandidate{
        .counts = counts, .devices = devices, .seconds = seconds, .value = problem_.measure.value(seconds, price)};
  }

  void descend(const CloseBound& close, std::size_t at, int devices, int left, double rate, double price,
               Counts& counts) {
    if (left > devices_from_[at]) return;
    if (left_.visits == 0) {
      cut_ = true;
      return;
    }
    --left_.visits;
    const double most_rate = rate + fill(pool_, fastest_, rates_, at, rank_, left);
    const double least_price = price + fill(pool_, cheapest_, problem_.device_prices, at, rank_, left);
    const double loose = problem_.move_seconds + samples_ / most_rate + overhead_seconds_;
    if (!may_improve(loose, least_price, devices)) return;
    if (left == 0) {
      consider(close, counts, price, devices);
      return;
    }
    const std::size_t kind = order_[at];
    const int granule = pool_.kinds()[kind].devices;
    for (int count = std::min(pool_.kinds()[kind].count(), left / granule); count >= 0; --count) {
      counts[kind] = count;
      const int taken = count * granule;
      descend(close, at + 1, devices, left - taken, rate + taken * rates_[kind],
              price + taken * problem_.device_prices[kind], counts);
    }
    counts[kind] = 0;
  }

  void consider(const CloseBound& close, const Counts& counts, double price, int devices) {
    if (left_.bounds == 0) {
      cut_ = true;
      return;
    }
    --left_.bounds;
    if (problem_.present == counts || !pool_.extent(counts).across_nodes) return;  // solved first
    if (may_improve(problem_.move_seconds + close.seconds(counts), price, devices)) solve(counts);
  }

  EpochCost& epoch_;
  const Pool& pool_;
  const ScaleProblem& problem_;
  ScaleEffort left_;
  bool cut_ = false;
  double samples_ = 0;
  double least_steps_ = 0;
  double overhead_seconds_ = 0;                               // of the number of devices being searched
  std::vector<double> rates_;                                 // samples per second of one device, per kind
  std::vector<std::size_t> fastest_, cheapest_, best_value_;  // kinds in these orders
  std::vector<std::size_t> order_;                            // in which kinds are decided
  std::vector<std::size_t> rank_;                             // place of a kind in order_
  std::vector<int> devices_from_;                             // all devices of order_[i], order_[i + 1], ..
  std::optional<ScaleCandidate> best_;
};

}  // namespace

ScaleSearchResult search_scale(EpochCost& epoch, const Pool& pool, const ScaleProblem& problem) {
  return ScaleSearch(epoch, pool, problem).run();
}

}  // namespace yoke::plan
