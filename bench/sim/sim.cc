// How fast the simulator is and how its time grows with devices, micro-batches and layers. Each row executes one step
// of a plan on a cluster of nodes of 8 devices with shared network cards. Prints one JSON object.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>
#include <vector>

#include "yoke/plan/schedule.h"
#include "yoke/sim/costs.h"
#include "yoke/sim/simulator.h"

namespace yoke {
namespace {

constexpr int kDevicesPerNode = 8;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

cluster::DeviceId device(int index) {
  return {fmt::format("n{}", index / kDevicesPerNode), index % kDevicesPerNode};
}

cluster::Cluster cluster_of(int devices) {
  std::vector<cluster::Node> nodes;
  for (int i = 0; i * kDevicesPerNode < devices; ++i) {
    nodes.push_back({.name = fmt::format("n{}", i),
                     .devices = kDevicesPerNode,
                     .intra_bandwidth = base::Bandwidth{100e9},
                     .inter_bandwidth = base::Bandwidth{12.5e9}});
  }
  return cluster::Cluster::make(nodes).value();
}

profile::LayerGraph chain(int layers) {
  std::vector<profile::Layer> list;
  std::vector<profile::Edge> edges;
  for (int i = 0; i < layers; ++i) {
    list.push_back({.id = fmt::format("l{}", i),
                    .description = "Linear",
                    .forward_ms = 1,
                    .backward_ms = 2,
                    .output_bytes = {1e6},
                    .parameter_bytes = 4e6});
    if (i > 0) edges.push_back({i - 1, i});
  }
  return profile::LayerGraph::make(list, edges).value();
}

/// `stages` of equal replicas over all devices.
plan::Plan pipeline(int devices, int stages, int workers, int layers) {
  plan::PipelineLane lane{.schedule = "1f1b-flush", .workers = workers};
  for (int s = 0; s < stages; ++s) {
    plan::PipelineStage stage;
    for (int l = layers * s / stages; l < layers * (s + 1) / stages; ++l) stage.layers.push_back(fmt::format("l{}", l));
    for (int d = devices * s / stages; d < devices * (s + 1) / stages; ++d) stage.devices.push_back(device(d));
    lane.stages.push_back(std::move(stage));
  }
  plan::Plan plan{.model = "chain", .gbs = workers, .lbs = 1, .cost_model = "none"};
  plan.pipeline_lanes = {std::move(lane)};
  return plan;
}

plan::Plan data(int devices, int ga) {
  plan::Plan plan{.model = "chain", .gbs = devices * (ga + 1), .lbs = 1, .cost_model = "none"};
  for (int d = 0; d < devices; ++d) plan.data_lanes.push_back({.device = device(d), .vsw = 1, .ga = ga});
  return plan;
}

std::string row(const std::string& name, const plan::Plan& plan, int devices, int layers) {
  const cluster::Cluster cluster = cluster_of(devices);
  const auto graph = chain(layers);
  const auto priced_at = std::chrono::steady_clock::now();
  const auto priced = sim::price_with_profile(plan, graph, cluster).value();
  std::vector<cluster::DeviceId> ids;
  for (const auto& program : priced.schedule.programs) ids.push_back(program.device);
  const auto network = sim::Network::make(cluster, ids, {.inter_latency = 1e-5}).value();
  const double price_seconds = seconds_since(priced_at);
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t cpu_begin = std::clock();
  const auto report = sim::simulate(priced.schedule, priced.costs, network).value();
  const double seconds = seconds_since(begin);
  const double cpu_seconds = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  std::size_t ops = 0;
  for (const auto& program : priced.schedule.programs) ops += program.ops.size();
  return fmt::format(
      R"({{"plan": "{}", "devices": {}, "workers": {}, "layers": {}, "ops": {}, "events": {}, "prepare_seconds": {:.4f}, )"
      R"("simulate_seconds": {:.4f}, "cpu_seconds": {:.4f}, "events_per_cpu_second": {:.0f}, "step_seconds": {:.6f}, "bubble_share": {:.4f}}})",
      name, devices, plan.workers(), layers, ops, report.events, price_seconds, seconds, cpu_seconds,
      static_cast<double>(report.events) / std::max(cpu_seconds, 1e-6), report.step_seconds(), report.bubble_share());
}

int run() {
  std::vector<std::string> rows;
  for (const int devices : {16, 160, 1600, 10'000}) {
    rows.push_back(
        row("pipeline of 16 stages", pipeline(devices, 16, 64 * std::max(1, devices / 16), 64), devices, 64));
    rows.push_back(row("data lanes", data(devices, 3), devices, 64));
  }
  for (const int workers : {64, 640, 6400, 64'000}) {
    rows.push_back(row("straight pipeline", pipeline(16, 16, workers, 64), 16, 64));
  }
  for (const int layers : {16, 160, 1600}) {
    rows.push_back(row("straight pipeline", pipeline(16, 16, 640, layers), 16, layers));
  }
  fmt::print("{{\"benchmark\": \"sim\", \"rows\": [\n");
  for (std::size_t i = 0; i < rows.size(); ++i) fmt::print("  {}{}\n", rows[i], i + 1 < rows.size() ? "," : "");
  fmt::print("]}}\n");
  return 0;
}

}  // namespace
}  // namespace yoke

int main() {
  return yoke::run();
}
