#include "yoke/plan/solve/pipeline/pipedream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "yoke/base/units.h"
#include "yoke/plan/solve/pipeline/pipedream_level.h"

namespace yoke::plan {
namespace {

using base::infeasible_error;
using base::input_error;
using base::Result;
using base::Status;
using profile::LayerGraph;
using Split = PipedreamResult::Split;
using Group = PipedreamResult::Group;

// What the tables may take, and how much work the innermost levels may be, before the graph is reduced.
constexpr double kTableBytes = 280e6;
constexpr double kTableSteps = 80e9;
constexpr int kMostStates = 6000;
constexpr int kMostMachines = 4096;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

Status validate(const PipedreamOptions& options) {
  if (options.levels.empty()) return input_error("found no level of machines, expected at least one");
  double devices = 1;
  for (const auto& level : options.levels) {
    devices *= level.machines;
    if (level.machines < 1 || level.machines > kMostMachines) {
      return input_error(fmt::format("found {} machines, expected 1 to {}", level.machines, kMostMachines),
                         {.field = "devices"});
    }
    if (!(level.bytes_per_s > 0) || !std::isfinite(level.bytes_per_s)) {
      return input_error(fmt::format("found a bandwidth of {} bytes/s, expected more than 0", level.bytes_per_s),
                         {.field = "bandwidth"});
    }
  }
  if (devices > 1e9)
    return input_error(fmt::format("the levels make {} devices, expected at most 10^9", devices), {.field = "devices"});
  if (options.memory_bytes && !(*options.memory_bytes >= 0)) {
    return input_error(fmt::format("found a memory limit of {} bytes, expected 0 or more", *options.memory_bytes));
  }
  if (options.compression && !(*options.compression > 0 && std::isfinite(*options.compression))) {
    return input_error(fmt::format("found a compression ratio of {}, expected more than 0", *options.compression));
  }
  return {};
}

/// The most states whose tables fit and whose solution takes a few seconds. Only levels below the last one need tables
/// of all segments, with work that grows with the cube of the states.
int affordable_states(const PipedreamOptions& options) {
  double tables = static_cast<double>(options.levels.size());  // one result each, kept for reading off the plan
  double products = 0;
  for (std::size_t l = 0; l + 1 < options.levels.size(); ++l) {
    const double machines = options.levels[l].machines;
    tables = std::max(tables, static_cast<double>(options.levels.size()) + machines);
    products += options.straight ? machines : machines * (machines - 1) / 2;
  }
  const double by_memory = std::sqrt(2 * kTableBytes / (tables * sizeof(double)));
  const double by_work = products > 0 ? std::cbrt(6 * kTableSteps / products) : kMostStates;
  return std::max(1, static_cast<int>(std::min({by_memory, by_work, static_cast<double>(kMostStates)})));
}

class Solver {
 public:
  Solver(const LayerGraph& graph, const PipedreamOptions& options, CutStates states)
      : graph_(graph), options_(options), states_(std::move(states)) {}

  Result<PipedreamResult> solve() {
    fill_tables();
    PipedreamResult result;
    YOKE_CHECK(read_off(result));
    result.seconds_per_minibatch = result.levels.back().front().seconds;
    result.states = states_.count;
    result.single_seconds = states_.seconds.back();
    result.data_parallel_seconds = data_parallel_seconds();
    result.reduction = std::move(states_.reduction);
    return result;
  }

 private:
  int level_count() const { return static_cast<int>(options_.levels.size()); }

  PipedreamLevel level(int index) const {
    return {.machines = options_.levels[at(index)].machines,
            .bytes_per_s = options_.levels[at(index)].bytes_per_s,
            .machines_within = index == 0 ? 1 : options_.levels[at(index - 1)].machines,
            .states = &states_,
            .single = &singles_[at(index)],
            .memory_bytes = options_.memory_bytes,
            .compression = options_.compression,
            .straight = options_.straight,
            .fewer = options_.fewer};
  }

  void fill_tables() {
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    const int threads = options_.threads > 0 ? options_.threads : cores;
    SegmentTable& compute = singles_.emplace_back(states_.count);
    for (int last = 0; last < states_.count; ++last) {
      for (int first = 0; first <= last; ++first) {
        compute.at(first, last) = states_.segment(states_.seconds, first, last);
      }
    }
    for (int l = 0; l + 1 < level_count(); ++l) singles_.push_back(solve_all_segments(level(l), threads));
  }

  /// From the outermost level inwards, every split becomes a group of the level below.
  Status read_off(PipedreamResult& result) const {
    result.levels.resize(options_.levels.size());
    std::vector<Split> outer{{.first = 0, .end = states_.count, .replicas = 1}};
    std::vector<int> replicas{1};  // of each of `outer`, over all levels
    for (int l = level_count(); l-- > 0;) {
      const PipedreamLevel current = level(l);
      std::vector<Split> inner;
      std::vector<int> inner_replicas;
      for (std::size_t g = 0; g < outer.size(); ++g) {
        const PipedreamRow row(current, outer[g].first, outer[g].end);
        Group group{.first = outer[g].first, .end = outer[g].end};
        group.seconds = row.seconds(group.end - 1, current.machines);
        if (group.seconds == kUndefined) return explain_infeasible(group);
        group.machines_not_used = current.machines;
        for (const auto& stage : row.stages()) {
          const double seconds = states_.segment(states_.seconds, stage.first, stage.end - 1);
          group.splits.push_back({stage.first, stage.end, stage.replicas, seconds});
          group.machines_not_used -= stage.replicas;
          inner_replicas.push_back(replicas[g] * stage.replicas);
        }
        inner.insert(inner.end(), group.splits.begin(), group.splits.end());
        result.levels[at(l)].push_back(std::move(group));
      }
      outer = std::move(inner);
      replicas = std::move(inner_replicas);
    }
    make_stages(outer, replicas, result);
    return {};
  }

  void make_stages(const std::vector<Split>& leaves, const std::vector<int>& replicas, PipedreamResult& result) const {
    std::vector<int> ends;
    for (const Split& leaf : leaves) ends.push_back(leaf.end - 1);
    result.stage_of = stage_of_layers(graph_, states_, ends);
    for (const int count : replicas) result.stages.push_back({.replicas = count});
    for (int layer = 0; layer < graph_.size(); ++layer) {
      auto& stage = result.stages[at(result.stage_of[at(layer)])];
      stage.layers.push_back(layer);
      const auto& costs = graph_.layers()[at(layer)];
      if (test(states_.layers.row(states_.count - 1), layer)) {
        stage.seconds += (costs.forward_ms + costs.backward_ms) / 1000.0;
      }
    }
  }

  double data_parallel_seconds() const {
    double seconds = states_.seconds.back();
    int within = 1;
    for (const auto& [machines, bytes_per_s] : options_.levels) {
      const double all_reduce = (4 * (machines - 1) * states_.parameter_bytes.back()) / (bytes_per_s * machines);
      seconds = (seconds + all_reduce / within) / machines;
      within = machines;
    }
    return seconds;
  }

  Status explain_infeasible(const Group& group) const {
    const auto stages_wanted = [&] {
      std::int64_t product = 1;
      for (const auto& level : options_.levels) product *= level.machines;
      return product;
    };
    if (options_.memory_bytes) {
      const std::string memory = base::format(base::Bytes{static_cast<std::int64_t>(*options_.memory_bytes)});
      return infeasible_error(
          fmt::format("no plan keeps every stage within the memory limit of {}{}; raise the limit, use fewer machines "
                      "or allow replicated stages",
                      memory, options_.straight ? " with one machine per stage" : ""));
    }
    return infeasible_error(
        fmt::format("one machine per stage needs a chain of {} stages, but the graph of {} states cannot be cut so "
                    "often (states {} to {}); use fewer machines or allow replicated stages",
                    stages_wanted(), states_.count, group.first, group.end - 1));
  }

  const LayerGraph& graph_;
  const PipedreamOptions& options_;
  CutStates states_;
  std::vector<SegmentTable> singles_;  // C of each level
};

}  // namespace

Result<PipedreamResult> solve_pipedream(const LayerGraph& graph, const PipedreamOptions& options) {
  YOKE_CHECK(validate(options));
  const int limit = options.state_limit > 0 ? options.state_limit : affordable_states(options);
  YOKE_TRY(CutStates states, enumerate_cut_states(graph, limit));
  return Solver(graph, options, std::move(states)).solve();
}

}  // namespace yoke::plan
