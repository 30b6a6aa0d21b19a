#include "yoke/plan/solve/scale/scale_bound.h"

#include <algorithm>
#include <limits>

namespace yoke::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Together they span a factor of two; above, the last rung is the bound.
constexpr std::size_t kRungs = 64;
constexpr double kGrowth = 1.011;
// Prices are looked up on every so many rungs only: a coarser bound, but as much cheaper.
constexpr std::size_t kPriceStride = 3;

}  // namespace

ScaleBound::ScaleBound(EpochCost& epoch, const Pool& pool, const std::vector<double>& prices,
                       const std::vector<std::size_t>& order, int devices)
    : epoch_(epoch), pool_(pool), prices_(prices), order_(order), rank_(order.size()) {
  for (std::size_t i = 0; i < order.size(); ++i) rank_[order[i]] = i;
  for (const GranuleKind& kind : pool.kinds()) kind_devices_.push_back(kind.count() * kind.devices);
  const Extent extent{.devices = devices, .across_nodes = true};
  for (const Load& load : epoch.loads()) {
    loads_.emplace_back();
    for (std::size_t i = 0; i < load.workers.size(); ++i) {
      if (load.workers[i] >= devices) add_ladder(load.workers[i], i, extent);
    }
    possible_ = possible_ && !loads_.back().empty();
  }
}

void ScaleBound::add_ladder(int workers, std::size_t lbs_index, Extent extent) {
  const std::size_t kinds = pool_.kinds().size();
  Ladder ladder{.gbs = static_cast<double>(workers) * epoch_.local_batch_sizes()[lbs_index],
                .workers = static_cast<double>(workers),
                .runs = {},
                .rungs = {}};
  std::vector<const ClassLanes*> lanes;
  double high = 0;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    lanes.push_back(epoch_.lanes(kind, lbs_index, extent));
    ladder.runs.push_back(lanes.back() != nullptr);
    if (lanes.back() != nullptr) high = std::max(high, lanes.back()->slowest());
  }
  const auto rung_at = [&](double seconds) {
    Rung rung{.seconds = seconds, .most = {}, .by_most = {}, .by_price = {}};
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      rung.most.push_back(lanes[kind] == nullptr ? 0 : lanes[kind]->most_within(seconds));
      if (rung.most.back() > 0) rung.by_most.push_back(kind);
    }
    rung.by_price = rung.by_most;
    std::stable_sort(rung.by_most.begin(), rung.by_most.end(),
                     [&](std::size_t a, std::size_t b) { return rung.most[a] > rung.most[b]; });
    std::stable_sort(rung.by_price.begin(), rung.by_price.end(), [&](std::size_t a, std::size_t b) {
      return prices_[a] * rung.most[b] < prices_[b] * rung.most[a];
    });
    return rung;
  };
  const Counts none(kinds, 0);
  const PartialChoice undecided{.counts = none, .decided = 0, .left = extent.devices, .price = 0, .least_price = 0};
  if (high == 0 || !suffices(ladder, rung_at(high), undecided)) return;
  // The first rung is (nearly) the longest time within which not even the fastest devices suffice.
  double low = 0;
  while (high - low > 1e-3 * high) {
    const double middle = low + (high - low) / 2;
    (suffices(ladder, rung_at(middle), undecided) ? high : low) = middle;
  }
  for (std::size_t i = 0; i < kRungs; ++i, low *= kGrowth) ladder.rungs.push_back(rung_at(low));
  loads_.back().push_back(std::move(ladder));
}

bool ScaleBound::runs(const Ladder& ladder, const Counts& counts) const {
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    if (counts[kind] > 0 && !ladder.runs[kind]) return false;
  }
  return true;
}

double ScaleBound::decided_workers(const Rung& rung, const PartialChoice& choice) const {
  double workers = 0;
  for (std::size_t i = 0; i < choice.decided; ++i) {
    const std::size_t kind = order_[i];
    if (choice.counts[kind] == 0) continue;
    if (rung.most[kind] == 0) return -1;
    workers += choice.counts[kind] * pool_.kinds()[kind].devices * rung.most[kind];
  }
  return workers;
}

bool ScaleBound::suffices(const Ladder& ladder, const Rung& rung, const PartialChoice& choice) const {
  double workers = decided_workers(rung, choice);
  if (workers < 0) return false;
  int left = choice.left;
  for (const std::size_t kind : rung.by_most) {
    if (left == 0) break;
    if (rank_[kind] < choice.decided) continue;
    const int taken = std::min(left, kind_devices_[kind]);
    workers += taken * rung.most[kind];
    left -= taken;
  }
  return left == 0 && workers >= ladder.workers;
}

double ScaleBound::step_seconds(const Ladder& ladder, const PartialChoice& choice) const {
  if (!runs(ladder, choice.counts)) return kNever;
  std::size_t insufficient = 0;
  for (std::size_t end = ladder.rungs.size(); end - insufficient > 1;) {
    const std::size_t middle = insufficient + (end - insufficient) / 2;
    (suffices(ladder, ladder.rungs[middle], choice) ? end : insufficient) = middle;
  }
  return ladder.rungs[insufficient].seconds;
}

double ScaleBound::seconds(const PartialChoice& choice) const {
  double total = 0;
  for (std::size_t load = 0; load < loads_.size(); ++load) {
    double best = kNever;  // per sample
    for (const Ladder& ladder : loads_[load]) best = std::min(best, step_seconds(ladder, choice) / ladder.gbs);
    total += best * epoch_.loads()[load].samples;
  }
  return total;
}

double ScaleBound::sufficient_price(const Ladder& ladder, const Rung& rung, const PartialChoice& choice) const {
  const double decided = decided_workers(rung, choice);
  if (decided < 0) return kNever;
  double wanted = ladder.workers - decided;
  double price = choice.price;
  // Each kind by itself may take all devices left: by price alone the greedy order is right, with both limits it is
  // not.
  for (const std::size_t kind : rung.by_price) {
    if (wanted <= 0) break;
    if (rank_[kind] < choice.decided) continue;
    const double taken = std::min<double>(std::min(choice.left, kind_devices_[kind]), wanted / rung.most[kind]);
    price += taken * prices_[kind];
    wanted -= taken * rung.most[kind];
  }
  return wanted > 1e-9 * ladder.workers ? kNever : std::max(price, choice.least_price);
}

double ScaleBound::step_seconds_price(const Ladder& ladder, const PartialChoice& choice) const {
  if (!runs(ladder, choice.counts)) return kNever;
  // A step longer than one rung but not than the next needs devices that suffice at the next.
  double best = ladder.rungs.back().seconds * choice.least_price;
  for (std::size_t i = 0; i + 1 < ladder.rungs.size(); i += kPriceStride) {
    const std::size_t next = std::min(i + kPriceStride, ladder.rungs.size() - 1);
    if (ladder.rungs[i].seconds * choice.least_price >= best) break;  // rungs only get longer
    best = std::min(best, ladder.rungs[i].seconds * sufficient_price(ladder, ladder.rungs[next], choice));
  }
  return best;
}

double ScaleBound::seconds_price(const PartialChoice& choice) const {
  double total = 0;
  for (std::size_t load = 0; load < loads_.size(); ++load) {
    double best = kNever;  // per sample
    for (const Ladder& ladder : loads_[load]) best = std::min(best, step_seconds_price(ladder, choice) / ladder.gbs);
    total += best * epoch_.loads()[load].samples;
  }
  return total;
}

}  // namespace yoke::plan
