#include "yoke/plan/solve/scale/scale_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "yoke/plan/solve/scale/scale_bound.h"

namespace yoke::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

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
    costs_matter_ = problem.measure.by == ScaleMeasure::By::kCost || problem.measure.most_cost < kNever;
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
    polish();
    std::sort(sizes.begin(), sizes.end());
    for (const auto& [value, devices] : sizes) {
      if (!may_improve(size_seconds(devices), size_price(devices), devices)) continue;
      const ScaleBound bound(epoch_, pool_, problem_.device_prices, order_, devices);
      if (!bound.possible()) continue;
      overhead_seconds_ = least_steps_ * epoch_.least_overhead(devices);
      Counts counts(pool_.kinds().size(), 0);
      descend(bound, 0, devices, devices, 0, 0, counts);
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
    return may_improve_at_cost(seconds, seconds * price / 3600, devices);
  }

  bool may_improve_at_cost(double seconds, double cost, int devices) const {
    const ScaleMeasure& measure = problem_.measure;
    if (seconds > measure.most_seconds || cost > measure.most_cost) return false;
    if (!best_) return true;
    const double value = measure.by == ScaleMeasure::By::kSeconds ? seconds : cost;
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

  /// Tries to add, drop or swap single granules of the best candidate until nothing helps.
  void polish() {
    for (bool improved = best_.has_value(); improved;) {
      improved = false;
      const Counts from = best_->counts;
      for (std::size_t less = 0; less <= from.size(); ++less) {
        for (std::size_t more = 0; more <= from.size(); ++more) {
          Counts to = from;
          if (less < from.size() && to[less]-- == 0) continue;
          if (more < from.size() && to[more]++ == pool_.kinds()[more].count()) continue;
          const int devices = pool_.devices(to);
          if (devices == 0 || to == from) continue;
          if (may_improve(loose_seconds(devices, rate_of(to)), price_of(to), devices)) solve(to);
        }
      }
      improved = best_->counts != from;
    }
  }

  void descend(const ScaleBound& bound, std::size_t at, int devices, int left, double rate, double price,
               Counts& counts) {
    if (left > devices_from_[at] || cut_) return;
    if (left_.visits == 0) {
      cut_ = true;
      return;
    }
    --left_.visits;
    const double most_rate = rate + fill(pool_, fastest_, rates_, at, rank_, left);
    const double least_price = price + fill(pool_, cheapest_, problem_.device_prices, at, rank_, left);
    const double loose = problem_.move_seconds + samples_ / most_rate + overhead_seconds_;
    if (!may_improve(loose, least_price, devices)) return;
    if (!survives(bound, {.counts = counts, .decided = at, .left = left, .price = price, .least_price = least_price},
                  devices)) {
      return;
    }
    if (left == 0) {
      const bool seen = problem_.present == counts || !pool_.extent(counts).across_nodes;
      if (!seen) solve(counts);
      return;
    }
    const std::size_t kind = order_[at];
    const int granule = pool_.kinds()[kind].devices;
    for (int count = std::min(pool_.kinds()[kind].count(), left / granule); count >= 0; --count) {
      counts[kind] = count;
      const int taken = count * granule;
      descend(bound, at + 1, devices, left - taken, rate + taken * rates_[kind],
              price + taken * problem_.device_prices[kind], counts);
    }
    counts[kind] = 0;
  }

  /// Whether the close bounds leave hope for any completion.
  bool survives(const ScaleBound& bound, const PartialChoice& choice, int devices) {
    if (left_.bounds == 0) {
      cut_ = true;
      return false;
    }
    --left_.bounds;
    const double seconds = problem_.move_seconds + bound.seconds(choice);
    if (!may_improve(seconds, choice.least_price, devices)) return false;
    if (!costs_matter_) return true;
    const double cost = (problem_.move_seconds * choice.least_price + bound.seconds_price(choice)) / 3600;
    return may_improve_at_cost(seconds, cost, devices);
  }

  EpochCost& epoch_;
  const Pool& pool_;
  const ScaleProblem& problem_;
  ScaleEffort left_;
  bool cut_ = false;
  bool costs_matter_ = false;
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
