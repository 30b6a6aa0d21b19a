// How long the batch solver and the scaling decision take, and how that grows with nodes, device types and batch. The
// profiles are made up in the shape of real ones: each type is slower than the one before, gains from several workers
// at once are logarithmic. Prints one JSON object.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "yoke/plan/cost/iidp_model.h"
#include "yoke/plan/solve/batch/batch.h"
#include "yoke/plan/solve/scale/scale.h"

namespace yoke {
namespace {

constexpr int kRepeats = 5;

profile::NodeProfile type_profile(int type) {
  profile::NodeProfile node{
      .node = fmt::format("t{}n0", type), .device_type = fmt::format("type{}", type), .by_lbs = {}};
  const double ms_per_sample = 2.9 * (1 + 0.37 * type);
  for (const int lbs : {32, 64, 96, 128, 160}) {
    const int most = std::max(1, 128 / lbs + type % 2);
    profile::LocalBatchProfile& at = node.by_lbs[lbs];
    at.max_vsw = most;
    std::vector<int> profiled{1, most / 2, most};
    profiled.erase(std::unique(profiled.begin(), profiled.end()), profiled.end());
    for (const int vsw : profiled) {
      if (vsw < 1 || (!at.compute.empty() && vsw <= at.compute.back().vsw)) continue;
      const double compute = ms_per_sample * std::pow(lbs, 0.98) * vsw / (1 + (0.08 + 0.01 * type) * std::log(vsw));
      at.compute.push_back({.vsw = vsw,
                            .total_ms = compute * 1.2,
                            .data_ms = 0.12 * lbs * vsw,
                            .forward_ms = compute / 3,
                            .backward_ms = compute * 2 / 3,
                            .update_ms = 4.7,
                            .copy_ms = 2.0 * (vsw - 1),
                            .bn_sync_ms = 6.3});
    }
  }
  return node;
}

plan::IidpModel model(int nodes, int devices, int types) {
  std::vector<cluster::Node> cluster;
  profile::ProfileSet profiles{.model = "synthetic",
                               .nodes = {},
                               .buckets = {{7.81, 30.04, 25.04, 25.25, 9.2}},
                               .comm = {.intra = {{0.2, 3.1}, {1, 3.7}, {2, 4.9}, {20, 30}},
                                        .inter = {{0.5, 4.4}, {2.6, 4.6}, {5.2, 7.7}, {40, 33}}}};
  for (int type = 0; type < types; ++type) profiles.nodes.push_back(type_profile(type));
  for (int i = 0; i < nodes; ++i) {
    cluster.push_back({.name = fmt::format("t{}n{}", i % types, i / types),
                       .devices = devices,
                       .type = fmt::format("type{}", i % types),
                       .intra_bandwidth = base::Bandwidth{15.75e9},
                       .inter_bandwidth = base::Bandwidth{12.5e9},
                       .tflops = 14.13 / (1 + 0.3 * (i % types))});
  }
  return plan::IidpModel::make(cluster::Cluster::make(cluster).value(), profiles).value();
}

/// The median of a few runs.
double median_ms(const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times[kRepeats / 2];
}

std::string batch_row(int nodes, int types, int gbs, bool may_idle) {
  const plan::IidpModel cost = model(nodes, 4, types);
  plan::BatchRequest request{.gbs = gbs};
  if (may_idle) request.idle_unit = 1;
  const plan::BatchSolution solution = plan::solve_batch(cost, request).value();
  const double ms = median_ms([&] { plan::solve_batch(cost, request).value(); });
  // A gain is fair only at the same batch; where that does not split equally there is none to name.
  const bool splits = solution.equal_split && solution.equal_split->gbs == gbs;
  const std::string gain =
      splits ? fmt::format("{:.3f}", solution.equal_split->step_seconds / solution.step_seconds) : "null";
  return fmt::format(
      R"({{"nodes":{},"devices":{},"types":{},"gbs":{},"may_idle":{},"solve_ms":{:.3f},"lbs":{},"devices_used":{},)"
      R"("samples_per_second":{:.1f},"gain_over_equal_split":{},"proven":{}}})",
      nodes, nodes * 4, types, gbs, may_idle, ms, solution.lbs, solution.extent.devices, solution.samples_per_second,
      gain, solution.proven);
}

std::string scale_row(int nodes, int types, int unit, plan::ScaleGoal goal) {
  const plan::IidpModel cost = model(nodes, 4, types);
  plan::ScaleRequest request{.samples = 12'811'670, .unit = unit, .move_seconds = 20};
  for (int i = 0; i < 30; ++i) request.trajectory.push_back(8192 * std::pow(1.03, i));
  for (int i = 0; i < nodes / 4; ++i)
    request.present.push_back({cost.cluster().nodes()[static_cast<std::size_t>(i)].name, 4});
  const plan::ScaleDecision fastest = plan::decide_scale(cost, request).value();
  request.goal = goal;
  request.deadline_seconds = fastest.chosen.seconds * 1.7;
  request.budget = *fastest.chosen.cost * 0.85;
  const auto decision = plan::decide_scale(cost, request);
  const double ms = median_ms([&] { static_cast<void>(plan::decide_scale(cost, request)); });
  const char* names[] = {"time", "cost_within_deadline", "time_within_budget"};
  if (!decision.ok()) {
    return fmt::format(R"({{"nodes":{},"types":{},"unit":{},"goal":"{}","solve_ms":{:.1f},"infeasible":true}})", nodes,
                       types, unit, names[static_cast<int>(goal)], ms);
  }
  int devices = 0;
  for (const plan::NodeUse& use : decision->chosen.nodes) devices += use.devices;
  return fmt::format(
      R"({{"nodes":{},"types":{},"unit":{},"goal":"{}","solve_ms":{:.1f},"candidates":{:.0f},"solved":{},"proven":{},)"
      R"("devices_used":{},"epoch_seconds":{:.1f},"epoch_cost":{:.2f}}})",
      nodes, types, unit, names[static_cast<int>(goal)], ms, decision->candidates, decision->solved, decision->proven,
      devices, decision->chosen.seconds, *decision->chosen.cost);
}

void run() {
  std::vector<std::string> rows;
  for (const int nodes : {2, 8, 32, 128, 512}) rows.push_back(batch_row(nodes, 2, 131072, false));
  for (const int gbs : {8192, 16384, 65536, 262144}) rows.push_back(batch_row(32, 2, gbs, false));
  for (const int types : {1, 2, 4, 8}) rows.push_back(batch_row(64, types, 65536, false));
  for (const int gbs : {131072, 1048576}) rows.push_back(batch_row(1000, 8, gbs, false));
  for (const int gbs : {1024, 16384}) rows.push_back(batch_row(32, 2, gbs, true));
  rows.push_back(batch_row(1000, 8, 1048576, true));
  std::vector<std::string> scale_rows;
  for (const auto goal : {plan::ScaleGoal::kShortestTime, plan::ScaleGoal::kLowestCostWithinDeadline,
                          plan::ScaleGoal::kShortestTimeWithinBudget}) {
    for (const int nodes : {8, 16, 64}) scale_rows.push_back(scale_row(nodes, 6, 4, goal));
    scale_rows.push_back(scale_row(64, 6, 2, goal));
  }
  fmt::print("{{\"batch\":[\n  {}\n],\"scale\":[\n  {}\n]}}\n", fmt::join(rows, ",\n  "),
             fmt::join(scale_rows, ",\n  "));
}

}  // namespace
}  // namespace yoke

int main() {
  yoke::run();
}
