// How long the pipeline solver takes over all reference profiles and machine levels, beside what the original optimizer
// took where its runs are recorded, and how the time grows with states, machines and levels. On profiles of moderate
// size the same rules as a plain recursion (tests/plan/pipeline/pipedream_rules.h: our re-statement, not the original
// program) run beside it in the same run: `plain_seconds`. Prints one JSON object.
//
//   bench_plan_pipeline [DATA_FOLDER [PROFILE...]]
//
// DATA_FOLDER holds golden/ and pipedream/profiles/; without it only growth is measured. With profiles named, only
// these.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/plan/pipeline/graph_text.h"
#include "tests/plan/pipeline/pipedream_rules.h"
#include "yoke/base/document.h"
#include "yoke/plan/solve/pipeline/overlap.h"
#include "yoke/plan/solve/pipeline/pipedream.h"

namespace yoke {
namespace {

using Machines = std::vector<int>;

/// The least of up to `kRepeats` runs; runs longer than a second are not repeated.
double seconds_of(const std::function<void()>& work) {
  constexpr int kRepeats = 3;
  double least = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < kRepeats && !(repeat > 0 && least > 1); ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    work();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// Bandwidths of the reference runs: one level 1 GB/s; several 15 GB/s inside, 1.25 GB/s outside, 5 GB/s between.
plan::PipedreamOptions options_for(const Machines& machines) {
  plan::PipedreamOptions options{.compression = 1.0};
  for (std::size_t l = 0; l < machines.size(); ++l) {
    const double outer = l + 1 == machines.size() ? 1.25e9 : 5e9;
    options.levels.push_back({machines[l], machines.size() == 1 ? 1e9 : l == 0 ? 15e9 : outer});
  }
  return options;
}

/// Seconds of the plain recursion; absent where it would take long.
std::optional<double> plain_seconds(const profile::LayerGraph& graph, const plan::PipedreamOptions& options,
                                    double expected) {
  constexpr int kMostStates = 450;
  constexpr int kMostMachines = 16;
  for (const auto& level : options.levels) {
    if (level.machines > kMostMachines) return std::nullopt;
  }
  const auto states = plan::enumerate_cut_states(graph, kMostStates);
  if (!states.ok() || !states->reduction.empty()) return std::nullopt;
  double answer = 0;
  const double seconds = seconds_of([&] { answer = plan::PipedreamRules(*states, options).answer(); });
  base::require(answer == expected, "the plain recursion disagrees");
  return seconds;
}

std::string pipedream_row(const std::string& name, const profile::LayerGraph& graph, const Machines& machines,
                          std::optional<double> original_seconds) {
  const auto options = options_for(machines);
  const auto result = plan::solve_pipedream(graph, options);
  if (!result.ok()) {
    return fmt::format(R"({{"profile":"{}","machines":[{}],"error":"{}"}})", name, fmt::join(machines, ","),
                       result.error().message);
  }
  const double seconds = seconds_of([&] { static_cast<void>(plan::solve_pipedream(graph, options)); });
  std::string row = fmt::format(
      R"({{"profile":"{}","machines":[{}],"states":{},"reduced":{},"seconds_per_minibatch":{},"solve_seconds":{:.6f})",
      name, fmt::join(machines, ","), result->states, !result->reduction.empty(), result->seconds_per_minibatch,
      seconds);
  if (const auto plain = plain_seconds(graph, options, result->seconds_per_minibatch)) {
    row += fmt::format(R"(,"plain_seconds":{:.6f},"times_faster_than_plain":{:.1f})", *plain, *plain / seconds);
  }
  if (original_seconds) {
    row +=
        fmt::format(R"(,"original_seconds":{},"times_faster":{:.0f})", *original_seconds, *original_seconds / seconds);
  }
  return row + "}";
}

std::string overlap_row(const std::string& name, const profile::LayerGraph& graph,
                        const std::vector<plan::DeviceGroup>& groups, plan::PipelineAim aim) {
  plan::OverlapOptions options{.groups = groups};
  std::vector<int> devices;
  for (const auto& group : groups) devices.push_back(group.devices());
  options.micro_batches = std::accumulate(devices.begin(), devices.end(), 0);
  options.aim = aim;
  const auto result = plan::solve_overlap(graph, options);
  if (!result.ok()) {
    return fmt::format(R"({{"profile":"{}","devices":[{}],"error":"{}"}})", name, fmt::join(devices, ","),
                       result.error().message);
  }
  const double seconds = seconds_of([&] { static_cast<void>(plan::solve_overlap(graph, options)); });
  return fmt::format(
      R"({{"profile":"{}","devices":[{}],"states":{},"reduced":{},"seconds_per_minibatch":{},"data_parallel_seconds":{},)"
      R"("minimised":"{}","step_seconds":{},"proven":{},"solve_seconds":{:.6f}}})",
      name, fmt::join(devices, ","), result->states, !result->reduction.empty(), result->seconds_per_minibatch,
      result->data_parallel_seconds, aim == plan::PipelineAim::kStep ? "step" : "pace", result->step_seconds,
      result->proven, seconds);
}

/// A chain with costs that differ from layer to layer.
profile::LayerGraph chain(int layers) {
  std::vector<profile::Layer> list;
  std::vector<profile::Edge> edges;
  for (int i = 0; i < layers; ++i) {
    list.push_back({.id = fmt::format("l{}", i),
                    .description = "Layer",
                    .forward_ms = 1.0 + i * 37 % 11,
                    .backward_ms = 2.0 + i * 53 % 17,
                    .output_bytes = {1e6 * (1 + i * 29 % 13)},
                    .parameter_bytes = 1e6 * (i * 31 % 7)});
    if (i > 0) edges.push_back({i - 1, i});
  }
  return profile::LayerGraph::make(std::move(list), std::move(edges)).value();
}

std::vector<plan::DeviceGroup> unlike_groups(int types) {
  std::vector<plan::DeviceGroup> groups;
  for (int t = 0; t < types; ++t) {
    groups.push_back({.type = fmt::format("type{}", t),
                      .nodes = 2,
                      .devices_per_node = 4,
                      .speed = 1.0 / (1 + t),
                      .intra_bytes_per_s = 15e9,
                      .inter_bytes_per_s = 1.25e9});
  }
  return groups;
}

/// Three types whose devices hold half of what the model alone would need.
std::vector<plan::DeviceGroup> tight_groups(const profile::LayerGraph& graph) {
  double bytes = 0;
  for (const auto& layer : graph.layers()) bytes += 3 * layer.parameter_bytes + layer.activation_bytes();
  auto groups = unlike_groups(3);
  for (auto& group : groups) group.memory_bytes = bytes / 2;
  return groups;
}

/// Seconds that the original took with every machine in use, replicas, no memory limit and compression 1.
std::map<std::pair<std::string, Machines>, double> original_seconds(const std::string& folder) {
  std::map<std::pair<std::string, Machines>, double> seconds;
  const auto document = base::load_document(folder + "/golden/pipedream.json");
  if (!document.ok()) return seconds;
  base::Reader reader(*document);
  for (base::View row : reader.root().items()) {
    auto ratio = row.find("activation_compression_ratio");
    auto wall = row.find("wall_seconds");
    const bool plain = !row.field("straight_pipeline").boolean() && !row.field("use_fewer_machines").boolean() &&
                       !row.field("use_memory_constraint").boolean();
    if (!plain || !ratio || ratio->number() != 1 || !wall) continue;
    Machines machines;
    for (base::View item : row.field("num_machines").items()) machines.push_back(static_cast<int>(item.integer()));
    seconds[{row.field("profile").text(), machines}] = wall->number();
  }
  return seconds;
}

void print_list(const char* name, const std::vector<std::string>& rows) {
  fmt::print("\"{}\":[\n  {}\n],\n", name, fmt::join(rows, ",\n  "));
}

/// How the time grows with states, machines and levels.
void print_growth() {
  std::vector<std::string> rows;
  for (const int states : {100, 200, 400, 800, 1600}) rows.push_back(pipedream_row("chain", chain(states), {4, 4}, {}));
  print_list("pipedream_by_states", rows);
  rows.clear();
  for (const int machines : {4, 16, 64, 256, 1024}) rows.push_back(pipedream_row("chain", chain(400), {machines}, {}));
  for (const int machines : {2, 4, 8, 16, 32}) {
    rows.push_back(pipedream_row("chain", chain(400), {machines, machines}, {}));
  }
  print_list("pipedream_by_machines", rows);
  rows.clear();
  for (const std::size_t levels : {1, 2, 3, 4, 5}) {
    rows.push_back(pipedream_row("chain", chain(400), Machines(levels, 4), {}));
  }
  print_list("pipedream_by_levels", rows);
  rows.clear();
  for (const int states : {100, 200, 400, 800, 1600, 3200}) {
    rows.push_back(overlap_row("chain", chain(states), unlike_groups(2), plan::PipelineAim::kPace));
  }
  print_list("overlap_by_states", rows);
}

int run(const std::optional<std::string>& folder, std::vector<std::string> names) {
  const bool growth = names.empty();
  if (names.empty()) {
    names = {"alexnet",       "vgg16",
             "resnet18",      "gnmt",
             "resnet50",      "resnet101",
             "gnmt_large",    "inception_v3_compressed",
             "inception_v3",  "nasnetamobile_compressed",
             "nasnetamobile", "nasnetalarge_compressed",
             "nasnetalarge"};
  }
  fmt::print("{{\n");
  std::vector<std::string> rows;
  std::vector<std::string> overlap_rows;
  std::vector<std::string> tight_rows;
  if (folder) {
    const auto originals = original_seconds(*folder);
    for (const std::string& name : names) {
      const auto graph = plan::load_graph_text(fmt::format("{}/pipedream/profiles/{}.txt", *folder, name));
      for (const Machines& machines : std::vector<Machines>{{4}, {16}, {4, 4}, {8, 8}, {2, 2, 2}}) {
        const auto original = originals.find({name, machines});
        rows.push_back(pipedream_row(name, graph, machines,
                                     original == originals.end() ? std::nullopt : std::optional(original->second)));
      }
      for (int types = 1; types <= 3; ++types) {
        overlap_rows.push_back(overlap_row(name, graph, unlike_groups(types), plan::PipelineAim::kPace));
        overlap_rows.push_back(overlap_row(name, graph, unlike_groups(types), plan::PipelineAim::kStep));
      }
      tight_rows.push_back(overlap_row(name, graph, tight_groups(graph), plan::PipelineAim::kPace));
    }
  }
  print_list("pipedream", rows);
  print_list("overlap", overlap_rows);
  print_list("overlap_tight_memory", tight_rows);

  if (growth) print_growth();
  fmt::print("\"peak_megabytes\":{:.0f}\n}}\n", peak_megabytes());
  return 0;
}

}  // namespace
}  // namespace yoke

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) return yoke::run(std::nullopt, {});
  return yoke::run(arguments.front(), {arguments.begin() + 1, arguments.end()});
}
