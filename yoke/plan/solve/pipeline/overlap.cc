#include "yoke/plan/solve/pipeline/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/plan/solve/pipeline/overlap_model.h"

namespace yoke::plan {
namespace {

using base::infeasible_error;
using base::input_error;
using base::Result;
using base::Status;
using profile::LayerGraph;

constexpr double kNone = std::numeric_limits<double>::infinity();
// Bounds are compared with a margin for rounding; costs themselves are compared exactly.
constexpr double kRounding = 1 + 1e-9;
constexpr int kMostDevices = 1024;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

/// All ways to have some devices of each group in use, as numbers: 0 is none, the last is all.
class Usages {
 public:
  explicit Usages(const std::vector<DeviceGroup>& groups) {
    for (const auto& group : groups) {
      strides_.push_back(count_);
      count_ *= group.devices() + 1;
    }
    for (int usage = 0; usage < count_; ++usage) {
      double capacity = 0;
      int devices = 0;
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const int used = usage / strides_[g] % (groups[g].devices() + 1);
        used_.push_back(used);
        capacity += used * groups[g].speed;
        devices += used;
      }
      capacity_.push_back(capacity);
      devices_.push_back(devices);
    }
  }

  int count() const { return count_; }
  int all() const { return count_ - 1; }
  int used(int usage, int group) const { return used_[at(usage) * strides_.size() + at(group)]; }
  int devices(int usage) const { return devices_[at(usage)]; }
  /// Devices of the profile that would be as fast.
  double capacity(int usage) const { return capacity_[at(usage)]; }
  int without(int usage, int group, int q) const { return usage - q * strides_[at(group)]; }

 private:
  int count_ = 1;
  std::vector<int> strides_;
  std::vector<int> used_;
  std::vector<int> devices_;
  std::vector<double> capacity_;
};

/// The states in ascending order of seconds, so that the ends of a stage of bounded compute are next to each other.
/// A state never has less seconds than one inside it: sums of the same numbers in the same order round alike.
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
    copy(&CutStates::activation_bytes);
    copy(&CutStates::parameter_bytes);
    copy(&CutStates::crossing_bytes);
    copy(&CutStates::augmented_bytes);
    std::ranges::copy(states.layers.row(from), sorted.layers.row(j).begin());
    for_each_bit(states.successors.row(from), [&](int to) { set(sorted.successors.row(j), place[at(to)]); });
  }
  return sorted;
}

/// The dynamic program. best(k, usage, place, source) is the time of the slowest stage after state k (k = -1: of all)
/// when those stages use `usage`, the first of them sits at `place` and gets its input from `source`.
class Program {
 public:
  /// Stages slower than `bound` are not followed: the answer is right if it is at most `bound`, else there is none.
  Program(const CutStates& states, const OverlapOptions& options, const Usages& usages, double bound)
      : states_(states),
        model_(states, options),
        usages_(usages),
        bound_(bound),
        groups_(model_.groups()),
        last_(states.count - 1),
        cells_(at(states.count) * at(usages.count()) * at(places()) * at(sources()), kNone),
        least_(at(states.count) * at(usages.count()), kNone) {
    for (int k = last_ - 1; k >= -1; --k) fill(k);
  }

  /// A choice of the first stage after a state, and what must follow.
  struct Choice {
    int last = 0;  // the state the stage ends with
    int q = 1;
    StagePlace place;
    StagePlace next;            // meaningless for the last stage
    double overlapped = 0;      // the larger of compute and all-reduce
    double output_seconds = 0;  // transfers to the next stage
    double rest = 0;            // the slowest later stage
  };
  struct Plan {
    double seconds = kNone;
    int usage = 0;
    std::vector<Choice> stages;
  };
  /// The best plan; seconds = kNone when there is none within the bound.
  Plan plan() const;

 private:
  // Where the input of a stage comes from: a group over the links between nodes, the same node, or nowhere.
  int sources() const { return groups_ + 2; }
  int same_node() const { return groups_; }
  int nowhere() const { return groups_ + 1; }
  int places() const { return 2 * groups_; }
  static int number(const StagePlace& place) { return 2 * place.group + (place.spans_nodes ? 1 : 0); }
  static StagePlace place_of(int number) { return {number / 2, number % 2 == 1}; }

  std::size_t row(int k, int usage) const { return at(k + 1) * at(usages_.count()) + at(usage); }
  std::size_t cell(int k, int usage, const StagePlace& place, int source) const {
    return (row(k, usage) * at(places()) + at(number(place))) * at(sources()) + at(source);
  }

  double input_seconds(int k, const StagePlace& place, int source, int q) const {
    if (source == nowhere()) return 0;
    const double link =
        source == same_node() ? model_.group(place.group).intra_bytes_per_s : model_.inter_link(source, place.group);
    return OverlapModel::transfer_seconds(model_.bytes_in(k + 1), link, q);
  }
  double seconds(const Choice& choice, int k, int source) const {
    const double transfers = input_seconds(k, choice.place, source, choice.q) + choice.output_seconds;
    return std::max({choice.overlapped, transfers, choice.rest});
  }

  bool may_follow(int k, int usage) const;
  /// With fewer the compute time alone would exceed the bound.
  int fewest_replicas(double compute, int group) const {
    const double alone = model_.group(group).speed * bound_ * kRounding;  // what one device can do within the bound
    if (compute <= alone) return 1;
    return static_cast<int>(std::min(compute / alone, kMostDevices + 1.0));
  }
  /// Visits the choices that `wanted(place, least)` asks for, where `least` is a time that none of them falls below.
  template <typename Wanted, typename Visit>
  void for_each_choice(int k, int usage, Wanted wanted, Visit visit) const;
  template <typename Visit>
  void for_each_next(Choice& choice, int usage_after, Visit visit) const;
  void fill(int k);

  const CutStates& states_;
  OverlapModel model_;
  const Usages& usages_;
  double bound_;
  int groups_;
  int last_;  // the last state
  std::vector<double> cells_;
  std::vector<double> least_;  // of the cells of each state and usage
};

/// Whether the devices of `usage` are fast enough for what is after state k, and the others for what is before.
bool Program::may_follow(int k, int usage) const {
  const double before = k < 0 ? 0 : states_.seconds[at(k)];
  const double after = states_.seconds.back() - before;
  const double others = usages_.capacity(usages_.all()) - usages_.capacity(usage);
  if (usages_.devices(usage) == 0) return false;
  if (k >= 0 && usage == usages_.all()) return false;
  if (bound_ == kNone) return true;
  const double bound = bound_ * kRounding;
  const double margin = states_.seconds.back() * (kRounding - 1);
  return after <= bound * usages_.capacity(usage) + margin && before <= bound * others + margin;
}

/// Completes `choice` with every place of the stage after it.
template <typename Visit>
void Program::for_each_next(Choice& choice, int usage_after, Visit visit) const {
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
    if (choice.rest == kNone || choice.rest > bound_) continue;
    const double link = model_.link(choice.place, choice.next, used_after);
    choice.output_seconds = OverlapModel::transfer_seconds(model_.bytes_out(choice.last), link, choice.q);
    visit(choice);
  }
}

template <typename Wanted, typename Visit>
void Program::for_each_choice(int k, int usage, Wanted wanted, Visit visit) const {
  const int devices = usages_.devices(usage);
  const double start = k < 0 ? 0 : states_.seconds[at(k)];
  double fastest = 0;
  for (int g = 0; g < groups_; ++g) fastest = std::max(fastest, usages_.used(usage, g) * model_.group(g).speed);
  for (int last = k + 1; last <= last_; ++last) {
    const double compute = states_.seconds[at(last)] - start;
    if (compute / fastest > bound_ * kRounding) return;
    if (k >= 0 && !test(states_.successors.row(k), last)) continue;
    for (int g = 0; g < groups_; ++g) {
      const int used = usages_.used(usage, g);
      for (int q = fewest_replicas(compute, g); q <= used; ++q) {
        const int after = usages_.without(usage, g, q);
        const double least_after = last == last_ ? 0 : least_[row(last, after)];
        if (least_after == kNone) continue;
        Choice choice{.last = last, .q = q};
        choice.place = {g, model_.spans_nodes(g, used, q)};
        if (!wanted(choice.place, least_after)) continue;
        choice.overlapped = std::max(model_.compute_seconds(k + 1, last, g, q),
                                     model_.all_reduce_seconds(k + 1, last, choice.place, q));
        const double least = std::max(choice.overlapped, least_after);
        if (least > bound_ || !wanted(choice.place, least) || !model_.fits(k + 1, last, g, q, devices)) continue;
        for_each_next(choice, after, visit);
      }
    }
  }
}

void Program::fill(int k) {
  const int first_source = k < 0 ? nowhere() : 0;
  const int end_source = k < 0 ? nowhere() + 1 : nowhere();
  for (int usage = 0; usage < usages_.count(); ++usage) {
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
        const double value = seconds(choice, k, source);
        double& best = cells_[cell(k, usage, choice.place, source)];
        if (value < best && value <= bound_) best = value;
        least = std::min(least, best);
        worst_here = std::max(worst_here, best);
      }
    });
  }
}

Program::Plan Program::plan() const {
  Plan plan;
  for (int usage = 0; usage < usages_.count(); ++usage) {
    const double value = least_[row(-1, usage)];
    if (value == kNone || value > plan.seconds) continue;
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
    if (value < plan.seconds || fewer()) {
      plan.seconds = value;
      plan.usage = usage;
    }
  }
  if (plan.seconds == kNone) return plan;
  int k = -1;
  int usage = plan.usage;
  int source = nowhere();
  double value = plan.seconds;
  while (k != last_) {
    const bool anywhere = k < 0;  // the first stage may sit at any place, the others where the one before needs them
    const StagePlace required = anywhere ? StagePlace{} : plan.stages.back().next;
    bool found = false;
    Choice chosen;
    const auto wanted = [&](const StagePlace& place, double least) {
      return !found && (anywhere || place == required) && least <= value;
    };
    for_each_choice(k, usage, wanted, [&](const Choice& choice) {
      if (found || seconds(choice, k, source) != value) return;
      found = true;
      chosen = choice;
    });
    base::require(found, "no stage explains the time of a plan");
    plan.stages.push_back(chosen);
    usage = usages_.without(usage, chosen.place.group, chosen.q);
    const int used_after = usages_.used(usage, chosen.place.group);
    source = model_.same_node(chosen.place, chosen.next, used_after) ? same_node() : chosen.place.group;
    value = chosen.rest;
    k = chosen.last;
  }
  return plan;
}

Status validate(const OverlapOptions& options) {
  if (options.groups.empty()) return input_error("found no group of devices, expected at least one");
  if (options.micro_batches < 1) {
    return input_error(fmt::format("found {} micro-batches, expected at least 1", options.micro_batches));
  }
  double devices = 0;
  for (std::size_t g = 0; g < options.groups.size(); ++g) {
    const DeviceGroup& group = options.groups[g];
    const base::Where where{.field = fmt::format("groups[{}] ({})", g, base::quote(group.type))};
    const auto positive = [&](std::string_view what, double value) -> Status {
      if (value > 0 && std::isfinite(value)) return {};
      return input_error(fmt::format("found {} {}, expected a number > 0", what, value), where);
    };
    if (group.nodes < 1 || group.devices_per_node < 1) {
      return input_error(fmt::format("found {} nodes of {} devices, expected at least one of each", group.nodes,
                                     group.devices_per_node),
                         where);
    }
    devices += static_cast<double>(group.nodes) * group.devices_per_node;
    YOKE_CHECK(positive("speed", group.speed));
    if (group.devices_per_node > 1) YOKE_CHECK(positive("bandwidth inside a node", group.intra_bytes_per_s));
    if (group.nodes > 1 || options.groups.size() > 1) {
      YOKE_CHECK(positive("bandwidth between nodes", group.inter_bytes_per_s));
    }
    if (group.memory_bytes && !(*group.memory_bytes >= 0)) {
      return input_error(fmt::format("found {} bytes of memory, expected 0 or more", *group.memory_bytes), where);
    }
  }
  if (devices > kMostDevices) {
    return input_error(fmt::format("found {} devices, expected at most {}", devices, kMostDevices));
  }
  return {};
}

/// The most states whose tables fit into memory and whose solution takes a few seconds; below 2 there is no solution.
double affordable_states(const OverlapOptions& options) {
  constexpr double kTableBytes = 300e6;
  constexpr double kSteps = 1e10;  // at most; the bound saves nearly all where memory is ample
  constexpr double kMostStates = 4000;
  const auto groups = static_cast<double>(options.groups.size());
  double usages = 1;
  double choices = 0;
  for (const auto& group : options.groups) {
    usages *= group.devices() + 1;
    choices += group.devices() / 2.0;
  }
  const double by_memory = kTableBytes / (usages * (2 * groups * (groups + 2) + 4) * sizeof(double));
  const double by_work = std::sqrt(2 * kSteps / (usages * choices * (groups + 1) * (groups + 2)));
  return std::min({by_memory, by_work, kMostStates});
}

struct Solution {
  CutStates states;
  Program::Plan plan;
};

/// Solves without knowing what time can be reached: the closer a guess is to perfect balance the less work it is, so
/// the guesses start there.
Program::Plan solve_by_guesses(const CutStates& states, const OverlapOptions& options, const Usages& usages) {
  const double balanced = states.seconds.back() / usages.capacity(usages.all());
  constexpr double kFirstSlack = 0.02;
  constexpr double kGrowth = 4;
  constexpr double kLastSlack = 50;
  for (double slack = kFirstSlack; slack < kLastSlack && balanced > 0; slack *= kGrowth) {
    Program::Plan plan = Program(states, options, usages, balanced * (1 + slack)).plan();
    if (!plan.stages.empty()) return plan;
  }
  return Program(states, options, usages, kNone).plan();
}

/// Solves with at most `limit` states, after a solution with far fewer of them has shown what time can be reached.
Result<Solution> solve_states(const LayerGraph& graph, const OverlapOptions& options, const Usages& usages, int limit) {
  constexpr int kFewStates = 60;
  constexpr int kFraction = 5;
  YOKE_TRY(const CutStates found, enumerate_cut_states(graph, limit));
  CutStates states = sorted_by_seconds(found);
  if (states.count > kFewStates) {
    YOKE_TRY(Solution rough, solve_states(graph, options, usages, std::max(kFewStates, states.count / kFraction)));
    if (rough.plan.seconds < kNone) {
      Program::Plan plan = Program(states, options, usages, rough.plan.seconds).plan();
      // Two reductions of a graph may keep different cuts: then the rough solution can be the better one.
      if (plan.stages.empty()) return rough;
      return Solution{std::move(states), std::move(plan)};
    }
  }
  Program::Plan plan = solve_by_guesses(states, options, usages);
  return Solution{std::move(states), std::move(plan)};
}

base::Error explain_infeasible(const CutStates& states, const OverlapOptions& options) {
  const DeviceGroup* largest = nullptr;
  for (const auto& group : options.groups) {
    if (!group.memory_bytes) continue;
    if (largest == nullptr || *group.memory_bytes > *largest->memory_bytes) largest = &group;
  }
  const auto bytes = [](double value) {
    return base::format(base::Bytes{static_cast<std::int64_t>(std::min(value, 9e18))});
  };
  if (largest != nullptr) {
    return infeasible_error(
        fmt::format("memory: no division into stages fits the devices (at most {}, on {}); the model has {} of "
                    "parameters and {} of "
                    "activations per minibatch. Use smaller minibatches, fewer micro-batches or more devices{}",
                    bytes(*largest->memory_bytes), base::quote(largest->type), bytes(states.parameter_bytes.back()),
                    bytes(states.activation_bytes.back()), options.may_idle ? "" : ", or allow idle devices"));
  }
  return infeasible_error(
      fmt::format("devices: {} groups must all be used, but the graph of {} states cannot be cut into so many stages; "
                  "allow idle devices or give fewer groups",
                  options.groups.size(), states.count));
}

double data_parallel_seconds(const CutStates& states, const OverlapOptions& options) {
  double slowest = kNone;
  double bytes_per_s = kNone;
  int devices = 0;
  int nodes = 0;
  for (const auto& group : options.groups) {
    slowest = std::min(slowest, group.speed);
    devices += group.devices();
    nodes += group.nodes;
  }
  for (const auto& group : options.groups) {
    bytes_per_s = std::min(bytes_per_s, nodes > 1 ? group.inter_bytes_per_s : group.intra_bytes_per_s);
  }
  const double compute = states.seconds.back() / (slowest * devices);
  if (devices == 1) return compute;
  const double once = 2.0 * (devices - 1) / devices * states.parameter_bytes.back() / bytes_per_s;
  return std::max(compute, once / (options.schedule == PipelineSchedule::kStash ? devices : options.micro_batches));
}

OverlapResult describe(const LayerGraph& graph, const OverlapOptions& options, const Usages& usages,
                       const Solution& solution) {
  const auto& [states, plan] = solution;
  const OverlapModel model(states, options);
  OverlapResult result;
  std::vector<int> ends;
  int usage = plan.usage;
  int first = 0;
  double input_link = kNone;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Program::Choice& choice = plan.stages[s];
    const int group = choice.place.group;
    const int devices = usages.devices(usage);
    OverlapResult::Stage stage{.group = group, .replicas = choice.q};
    stage.first_device = model.group(group).devices() - usages.used(usage, group);
    usage = usages.without(usage, group, choice.q);
    stage.compute_seconds = model.compute_seconds(first, choice.last, group, choice.q);
    stage.all_reduce_seconds = model.all_reduce_seconds(first, choice.last, choice.place, choice.q);
    if (s > 0) stage.transfer_seconds = OverlapModel::transfer_seconds(model.bytes_in(first), input_link, choice.q);
    stage.transfer_seconds += choice.output_seconds;
    stage.seconds = std::max({stage.compute_seconds, stage.all_reduce_seconds, stage.transfer_seconds});
    stage.in_flight = model.in_flight(choice.q, devices);
    stage.memory_bytes = model.memory_bytes(first, choice.last, choice.q, devices);
    input_link = model.link(choice.place, choice.next, usages.used(usage, group));
    first = choice.last + 1;
    ends.push_back(choice.last);
    result.stages.push_back(std::move(stage));
  }
  result.seconds_per_minibatch = plan.seconds;
  result.data_parallel_seconds = data_parallel_seconds(states, options);
  double fastest = 0;
  for (const auto& group : options.groups) fastest = std::max(fastest, group.speed);
  result.single_seconds = states.seconds.back() / fastest;
  result.states = states.count;
  result.stage_of = stage_of_layers(graph, states, ends);
  for (int layer = 0; layer < graph.size(); ++layer) {
    result.stages[at(result.stage_of[at(layer)])].layers.push_back(layer);
  }
  for (int g = 0; g < model.groups(); ++g) {
    result.idle_devices.push_back(model.group(g).devices() - usages.used(plan.usage, g));
  }
  result.reduction = states.reduction;
  return result;
}

}  // namespace

Result<OverlapResult> solve_overlap(const LayerGraph& graph, const OverlapOptions& options) {
  YOKE_CHECK(validate(options));
  const double affordable = affordable_states(options);
  if (affordable < 2) {
    return input_error(
        fmt::format("{} groups of devices can be combined in too many ways; expected fewer groups or fewer devices in "
                    "each: put devices of nearly the same speed into one group",
                    options.groups.size()));
  }
  const int limit = options.state_limit > 0 ? options.state_limit : static_cast<int>(affordable);
  const Usages usages(options.groups);
  YOKE_TRY(const Solution solution, solve_states(graph, options, usages, limit));
  if (solution.plan.stages.empty()) return explain_infeasible(solution.states, options);
  return describe(graph, options, usages, solution);
}

}  // namespace yoke::plan
