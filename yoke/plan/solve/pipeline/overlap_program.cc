#include "yoke/plan/solve/pipeline/overlap_program.h"

#include <algorithm>
#include <numeric>

namespace yoke::plan {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
// Bounds are compared with a margin for rounding; costs themselves are compared exactly.
constexpr double kRounding = 1 + 1e-9;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

Usages::Usages(const std::vector<DeviceGroup>& groups) {
  for (const auto& group : groups) {
    strides_.push_back(count_);
    count_ *= group.devices() + 1;
  }
  for (int usage = 0; usage < count_; ++usage) {
    double capacity = 0;
    double memory_bytes = 0;
    int devices = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const int used = usage / strides_[g] % (groups[g].devices() + 1);
      used_.push_back(used);
      capacity += used * groups[g].speed;
      if (used > 0) memory_bytes += used * groups[g].memory_bytes.value_or(kNone);
      devices += used;
    }
    capacity_.push_back(capacity);
    memory_bytes_.push_back(memory_bytes);
    devices_.push_back(devices);
  }
}

CutStates sorted_by_seconds(const CutStates& states) {
  std::vector<int> order(at(states.count));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int j) { return states.seconds[at(j)]; });
  std::vector<int> place(order.size());
  for (int j = 0; j < states.count; ++j) place[at(order[at(j)])] = j;
  CutStates sorted = states;
  sorted.successors = BitRows(states.count, states.count);
  for (int j = 0; j < states.count; ++j) {
    const int from = order[at(j)];
    const auto copy = [&](auto member) { (sorted.*member)[at(j)] = (states.*member)[at(from)]; };
    copy(&CutStates::seconds);
    copy(&CutStates::update_seconds);
    copy(&CutStates::activation_bytes);
    copy(&CutStates::parameter_bytes);
    copy(&CutStates::crossing_bytes);
    copy(&CutStates::augmented_bytes);
    std::ranges::copy(states.layers.row(from), sorted.layers.row(j).begin());
    for_each_bit(states.successors.row(from), [&](int to) { set(sorted.successors.row(j), place[at(to)]); });
  }
  return sorted;
}

OverlapProgram::OverlapProgram(const CutStates& states, const OverlapOptions& options, const Usages& usages, Aim aim,
                               Limits limits, OverlapEffort& effort)
    : states_(states),
      model_(states, options),
      usages_(usages),
      aim_(aim),
      limits_(limits),
      effort_(effort),
      groups_(model_.groups()),
      last_(states.count - 1),
      cells_(at(states.count) * at(usages.count()) * at(places()) * at(sources()), kNone),
      least_(at(states.count) * at(usages.count()), kNone) {
  for (const auto& group : options.groups) fastest_ = std::max(fastest_, group.speed);
  for (int k = last_ - 1; k >= -1; --k) fill(k);
}

double OverlapProgram::input_seconds(int k, const StagePlace& place, int source) const {
  if (source == nowhere()) return 0;
  const double link =
      source == same_node() ? model_.group(place.group).intra_bytes_per_s : model_.inter_link(source, place.group);
  return OverlapModel::transfer_seconds(model_.bytes_in(k + 1), link);
}

double OverlapProgram::value(const Choice& choice, int k, int source) const {
  const double input = input_seconds(k, choice.place, source);
  const double transfers = input + choice.output_seconds;
  const double seconds = std::max(choice.overlapped, transfers * model_.share(choice.q));
  if (seconds > limits_.pace) return kNone;
  if (aim_ == Aim::kPace) return std::max(seconds, choice.rest);
  if (model_.extra_seconds(seconds, choice.alone_seconds, transfers) > limits_.extra) return kNone;
  const double before = k < 0 ? 0 : states_.seconds[at(k)] / fastest_;
  const double value = choice.alone_seconds + input + choice.rest;
  return before + value > limits_.first * kRounding ? kNone : value;
}

/// With fewer the compute time alone would exceed the limit.
int OverlapProgram::fewest_replicas(double compute, int group) const {
  const double alone = model_.group(group).speed * limits_.pace * kRounding;  // what one device can do within the limit
  if (compute <= alone) return 1;
  constexpr double kMany = 1 << 30;
  return static_cast<int>(std::min(compute / alone, kMany));
}

/// Whether the devices of `usage` are fast and large enough for what is after state k, and the others for what is
/// before.
bool OverlapProgram::may_follow(int k, int usage) const {
  if (usages_.devices(usage) == 0) return false;
  if (k >= 0 && usage == usages_.all()) return false;
  const int all = usages_.all();
  if (model_.least_bytes(k + 1, last_, 1) > usages_.memory_bytes(usage) * kRounding) return false;
  if (k >= 0 && usages_.memory_bytes(all) < kNone) {
    const double others = usages_.memory_bytes(all) - usages_.memory_bytes(usage);
    if (model_.least_bytes(0, k, usages_.devices(usage) + 1) > others + usages_.memory_bytes(all) * (kRounding - 1)) {
      return false;
    }
  }
  if (limits_.pace == kNone) return true;
  const double before = k < 0 ? 0 : states_.seconds[at(k)];
  const double after = states_.seconds.back() - before;
  const double others = usages_.capacity(all) - usages_.capacity(usage);
  const double bound = limits_.pace * kRounding;
  const double margin = states_.seconds.back() * (kRounding - 1);
  return after <= bound * usages_.capacity(usage) + margin && before <= bound * others + margin;
}

/// Completes `choice` with every place of the stage after it.
template <typename Visit>
void OverlapProgram::for_each_next(Choice& choice, int usage_after, Visit visit) const {
  if (choice.last == last_) {
    choice.rest = 0;
    choice.output_seconds = 0;
    if (usages_.devices(usage_after) == 0) visit(choice);
    return;
  }
  const int used_after = usages_.used(usage_after, choice.place.group);
  for (int next = 0; next < places(); ++next) {
    choice.next = place_of(next);
    const bool near = model_.same_node(choice.place, choice.next, used_after);
    choice.rest = cells_[cell(choice.last, usage_after, choice.next, near ? same_node() : choice.place.group)];
    if (choice.rest == kNone) continue;
    const double link = model_.link(choice.place, choice.next, used_after);
    choice.output_seconds = OverlapModel::transfer_seconds(model_.bytes_out(choice.last), link);
    visit(choice);
  }
}

template <typename Wanted, typename Visit>
void OverlapProgram::for_each_choice(int k, int usage, Wanted wanted, Visit visit) const {
  const int devices = usages_.devices(usage);
  const double start = k < 0 ? 0 : states_.seconds[at(k)];
  double fastest = 0;
  for (int g = 0; g < groups_; ++g) fastest = std::max(fastest, usages_.used(usage, g) * model_.group(g).speed);
  std::int64_t steps = 0;
  for (int last = k + 1; last <= last_; ++last) {
    const double compute = states_.seconds[at(last)] - start;
    if (compute / fastest > limits_.pace * kRounding) break;
    ++steps;
    if (k >= 0 && !test(states_.successors.row(k), last)) continue;
    for (int g = 0; g < groups_; ++g) {
      const int used = usages_.used(usage, g);
      const int most = std::min(used, model_.most_replicas());
      for (int q = fewest_replicas(compute, g); q <= most; ++q) {
        ++steps;
        const int after = usages_.without(usage, g, q);
        const double least_after = last == last_ ? 0 : least_[row(last, after)];
        if (least_after == kNone) continue;
        Choice choice{.last = last, .q = q};
        choice.place = {g, model_.spans_nodes(g, used, q)};
        if (!wanted(choice.place, least_after)) continue;
        choice.alone_seconds = model_.alone_seconds(k + 1, last, g);
        choice.overlapped = std::max(model_.compute_seconds(k + 1, last, g, q),
                                     model_.all_reduce_seconds(k + 1, last, choice.place, q));
        if (choice.overlapped > limits_.pace || !wanted(choice.place, least(choice, least_after)) ||
            !model_.fits(k + 1, last, g, q, devices)) {
          continue;
        }
        steps += places() * sources();
        for_each_next(choice, after, visit);
      }
    }
  }
  effort_.left -= steps;
}

void OverlapProgram::fill(int k) {
  const int first_source = k < 0 ? nowhere() : 0;
  const int end_source = k < 0 ? nowhere() + 1 : nowhere();
  for (int usage = 0; usage < usages_.count(); ++usage) {
    if (effort_.used_up()) return;
    if (k < 0 && !model_.options().may_idle && usage != usages_.all()) continue;
    if (!may_follow(k, usage)) continue;
    double& least = least_[row(k, usage)];
    std::vector<double> worst(at(places()), kNone);  // over the sources, of each place: what is not below is no gain
    const auto wanted = [&](const StagePlace& place, double value) { return value < worst[at(number(place))]; };
    for_each_choice(k, usage, wanted, [&](const Choice& choice) {
      double& worst_here = worst[at(number(choice.place))];
      if (choice.rest >= worst_here) return;
      worst_here = 0;
      for (int source = first_source; source < end_source; ++source) {
        double& best = cells_[cell(k, usage, choice.place, source)];
        best = std::min(best, value(choice, k, source));
        least = std::min(least, best);
        worst_here = std::max(worst_here, best);
      }
    });
  }
}

OverlapProgram::Plan OverlapProgram::plan() const {
  Plan plan;
  if (effort_.used_up()) return plan;  // the tables are not complete
  for (int usage = 0; usage < usages_.count(); ++usage) {
    const double value = least_[row(-1, usage)];
    if (value == kNone || value > plan.value) continue;
    const auto fewer = [&] {
      if (usages_.devices(usage) != usages_.devices(plan.usage)) {
        return usages_.devices(usage) < usages_.devices(plan.usage);
      }
      for (int g = 0; g < groups_; ++g) {
        const int difference = usages_.used(usage, g) - usages_.used(plan.usage, g);
        if (difference != 0) return difference < 0;
      }
      return false;
    };
    if (value < plan.value || fewer()) {
      plan.value = value;
      plan.usage = usage;
    }
  }
  if (plan.value == kNone) return plan;
  int k = -1;
  int usage = plan.usage;
  int source = nowhere();
  double wanted_value = plan.value;
  while (k != last_) {
    const bool anywhere = k < 0;  // the first stage may sit at any place, the others where the one before needs them
    const StagePlace required = anywhere ? StagePlace{} : plan.stages.back().next;
    bool found = false;
    Choice chosen;
    const auto wanted = [&](const StagePlace& place, double least) {
      return !found && (anywhere || place == required) && least <= wanted_value;
    };
    for_each_choice(k, usage, wanted, [&](const Choice& choice) {
      if (found || value(choice, k, source) != wanted_value) return;
      found = true;
      chosen = choice;
    });
    base::require(found, "no stage explains the time of a plan");
    plan.stages.push_back(chosen);
    usage = usages_.without(usage, chosen.place.group, chosen.q);
    const int used_after = usages_.used(usage, chosen.place.group);
    source = model_.same_node(chosen.place, chosen.next, used_after) ? same_node() : chosen.place.group;
    wanted_value = chosen.rest;
    k = chosen.last;
  }
  return plan;
}

}  // namespace yoke::plan
