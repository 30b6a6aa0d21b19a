#include "yoke/plan/solve/pipeline/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/plan/solve/pipeline/overlap_model.h"
#include "yoke/plan/solve/pipeline/overlap_program.h"

namespace yoke::plan {
namespace {

using base::infeasible_error;
using base::input_error;
using base::Result;
using base::Status;
using profile::LayerGraph;
using Program = OverlapProgram;

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr int kMostDevices = 1024;
constexpr int kMostOptimizerCopies = 16;
// Some seconds, and about one.
constexpr std::int64_t kPaceEffort = 700'000'000;
constexpr std::int64_t kStepEffort = 60'000'000;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

Status validate(const OverlapOptions& options) {
  if (options.groups.empty()) return input_error("found no group of devices, expected at least one");
  if (options.micro_batches < 1) {
    return input_error(fmt::format("found {} micro-batches, expected at least 1", options.micro_batches),
                       {.field = "micro_batches"});
  }
  if (options.optimizer_copies < 0 || options.optimizer_copies > kMostOptimizerCopies) {
    return input_error(fmt::format("found {} optimizer copies of the weights, expected 0 to {}",
                                   options.optimizer_copies, kMostOptimizerCopies),
                       {.field = "optimizer_copies"});
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
    return input_error(fmt::format("found {} devices, expected at most {}", devices, kMostDevices),
                       {.field = "devices"});
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

/// What a plan costs, stage by stage.
struct Priced {
  std::vector<OverlapResult::Stage> stages;  // without their layers
  double pace = 0;
  double first = 0;  // see overlap.h
  double extra = 0;
  double step() const { return first + extra; }
};

Priced price(const CutStates& states, const OverlapOptions& options, const Usages& usages, const Program::Plan& plan) {
  const OverlapModel model(states, options);
  Priced priced;
  int usage = plan.usage;
  int first = 0;
  double input = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Program::Choice& choice = plan.stages[s];
    const int group = choice.place.group;
    const int devices = usages.devices(usage);
    OverlapResult::Stage stage{.group = group, .replicas = choice.q};
    stage.first_device = model.group(group).devices() - usages.used(usage, group);
    usage = usages.without(usage, group, choice.q);
    const double transfers = input + choice.output_seconds;
    stage.alone_seconds = choice.alone_seconds;
    stage.compute_seconds = model.compute_seconds(first, choice.last, group, choice.q);
    stage.all_reduce_seconds = model.all_reduce_seconds(first, choice.last, choice.place, choice.q);
    stage.transfer_seconds = transfers * model.share(choice.q);
    stage.seconds = std::max({stage.compute_seconds, stage.all_reduce_seconds, stage.transfer_seconds});
    stage.in_flight = model.in_flight(choice.q, devices);
    stage.memory_bytes = model.memory_bytes(first, choice.last, choice.q, devices);
    priced.pace = std::max(priced.pace, stage.seconds);
    priced.first += choice.alone_seconds + input;
    priced.extra = std::max(priced.extra, model.extra_seconds(stage.seconds, choice.alone_seconds, transfers));
    input = choice.output_seconds;
    first = choice.last + 1;
    priced.stages.push_back(std::move(stage));
  }
  return priced;
}

struct Solution {
  CutStates states;
  Program::Plan plan;
  bool proven = true;
};

/// Solves without knowing what time can be reached: the closer a guess is to perfect balance the less work it is, so
/// the guesses start there.
Program::Plan solve_by_guesses(const CutStates& states, const OverlapOptions& options, const Usages& usages,
                               OverlapEffort& effort) {
  const double balanced = states.seconds.back() / usages.capacity(usages.all());
  constexpr double kFirstSlack = 0.02;
  constexpr double kGrowth = 4;
  constexpr double kLastSlack = 50;
  for (double slack = kFirstSlack; slack < kLastSlack && balanced > 0; slack *= kGrowth) {
    const Program program(states, options, usages, Program::Aim::kPace, {.pace = balanced * (1 + slack)}, effort);
    Program::Plan plan = program.plan();
    if (plan.found() || effort.used_up()) return plan;
  }
  return Program(states, options, usages, Program::Aim::kPace, {}, effort).plan();
}

/// The best pace with at most `limit` states, after a solution with far fewer of them has shown what can be reached.
Result<Solution> solve_pace(const LayerGraph& graph, const OverlapOptions& options, const Usages& usages, int limit,
                            OverlapEffort& effort) {
  constexpr int kFewStates = 12;
  constexpr int kFraction = 5;
  YOKE_TRY(const CutStates found, enumerate_cut_states(graph, limit));
  Solution solution{.states = sorted_by_seconds(found), .plan = {}};
  const CutStates& states = solution.states;
  if (states.count > kFewStates) {
    YOKE_TRY(Solution rough,
             solve_pace(graph, options, usages, std::max(kFewStates, states.count / kFraction), effort));
    if (rough.plan.found()) {
      const Program program(states, options, usages, Program::Aim::kPace, {.pace = rough.plan.value}, effort);
      solution.plan = program.plan();
      if (solution.plan.found()) return solution;
      // Two reductions of a graph may keep different cuts: then the rough solution can be the better one.
      rough.proven = !effort.used_up();
      return rough;
    }
  }
  solution.plan = solve_by_guesses(states, options, usages, effort);
  solution.proven = solution.plan.found() || !effort.used_up();
  return solution;
}

/// Replaces the plan by the one of the shortest step. A step is first + extra: every round finds the least first among
/// the plans whose extra is small enough to win, and that is the least first from then on.
void shorten_step(const OverlapOptions& options, const Usages& usages, Solution& solution) {
  constexpr double kLess = 1 - 1e-12;
  const CutStates& states = solution.states;
  OverlapEffort effort{kStepEffort};
  double fastest = 0;
  for (const auto& group : options.groups) fastest = std::max(fastest, group.speed);
  double least_first = states.seconds.back() / fastest;
  double step = price(states, options, usages, solution.plan).step();
  double extra = kNone;
  for (;;) {
    extra = std::min(extra, step - least_first) * kLess;
    if (extra <= 0) return;
    const Program::Limits limits{.pace = step / options.micro_batches, .extra = extra, .first = step};
    Program::Plan plan = Program(states, options, usages, Program::Aim::kFirst, limits, effort).plan();
    if (effort.used_up()) solution.proven = false;
    if (!plan.found()) return;
    const Priced priced = price(states, options, usages, plan);
    least_first = priced.first;
    extra = priced.extra;
    if (priced.step() >= step) continue;
    step = priced.step();
    solution.plan = std::move(plan);
  }
}

base::Error explain_infeasible(const Solution& solution, const OverlapOptions& options) {
  const CutStates& states = solution.states;
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
        fmt::format("memory: {} (at most {}, on {}); the model has {} of parameters, held {} times or more with their "
                    "gradients and optimizer state, and {} of activations per minibatch. Use smaller minibatches, "
                    "fewer micro-batches or more devices{}",
                    solution.proven ? "no division into stages fits the devices"
                                    : "no division into stages that fits the devices was found before the search was "
                                      "cut short",
                    bytes(*largest->memory_bytes), base::quote(largest->type), bytes(states.parameter_bytes.back()),
                    2 + options.optimizer_copies, bytes(states.activation_bytes.back()),
                    options.may_idle ? "" : ", or allow idle devices"));
  }
  int devices = 0;
  for (const auto& group : options.groups) devices += group.devices();
  return infeasible_error(fmt::format(
      "devices: {} devices in {} groups must all be used, but the graph has {} places to cut at, a stage is "
      "on one group, and {} micro-batches keep no more replicas of a stage busy; allow idle devices, give "
      "fewer groups or more micro-batches",
      devices, options.groups.size(), states.count - 1, options.micro_batches));
}

/// The whole model on every device.
void compare_with_data_parallel(const CutStates& states, const OverlapOptions& options, OverlapResult& result) {
  const OverlapModel model(states, options);
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
  const double shared = model.minibatches_per_update(devices);
  result.data_parallel_seconds =
      (states.seconds.back() * model.share(devices) + states.update_seconds.back() / shared) / slowest;
  for (int g = 0; g < model.groups(); ++g) {
    result.data_parallel_fits = result.data_parallel_fits && model.fits(0, states.count - 1, g, devices, devices);
  }
  if (devices == 1) return;
  const double once = 2.0 * (devices - 1) / devices * states.parameter_bytes.back() / bytes_per_s;
  result.data_parallel_seconds = std::max(result.data_parallel_seconds, once / shared);
}

OverlapResult describe(const LayerGraph& graph, const OverlapOptions& options, const Usages& usages,
                       const Solution& solution) {
  const auto& [states, plan, proven] = solution;
  Priced priced = price(states, options, usages, plan);
  OverlapResult result{.seconds_per_minibatch = priced.pace,
                       .step_seconds = options.schedule == PipelineSchedule::kStash
                                           ? priced.pace * options.micro_batches
                                           : priced.step(),
                       .proven = proven,
                       .states = states.count,
                       .stages = std::move(priced.stages),
                       .reduction = states.reduction};
  compare_with_data_parallel(states, options, result);
  double fastest = 0;
  for (const auto& group : options.groups) fastest = std::max(fastest, group.speed);
  const OverlapModel model(states, options);
  result.single_seconds =
      (states.seconds.back() + states.update_seconds.back() / model.minibatches_per_update(1)) / fastest;
  std::vector<int> ends;
  for (const auto& choice : plan.stages) ends.push_back(choice.last);
  result.stage_of = stage_of_layers(graph, states, ends);
  for (int layer = 0; layer < graph.size(); ++layer) {
    result.stages[at(result.stage_of[at(layer)])].layers.push_back(layer);
  }
  for (std::size_t g = 0; g < options.groups.size(); ++g) {
    result.idle_devices.push_back(options.groups[g].devices() - usages.used(plan.usage, static_cast<int>(g)));
  }
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
                    options.groups.size()),
        {.field = "devices"});
  }
  const int limit = options.state_limit > 0 ? options.state_limit : static_cast<int>(affordable);
  const Usages usages(options.groups);
  OverlapEffort effort{kPaceEffort};
  YOKE_TRY(Solution solution, solve_pace(graph, options, usages, limit, effort));
  if (!solution.plan.found()) return explain_infeasible(solution, options);
  if (options.aim == PipelineAim::kStep && options.schedule != PipelineSchedule::kStash) {
    shorten_step(options, usages, solution);
  }
  return describe(graph, options, usages, solution);
}

}  // namespace yoke::plan
