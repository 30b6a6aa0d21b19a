// Plans and costs with round numbers, for closed forms.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "yoke/plan/schedule.h"
#include "yoke/sim/costs.h"
#include "yoke/sim/network.h"
#include "yoke/sim/simulator.h"

namespace yoke::sim {

/// One node `n` for each stage, or all on node `n0`.
inline plan::Plan pipeline_plan(const std::string& schedule, int workers, const std::vector<int>& replicas,
                                bool one_node = true) {
  plan::PipelineLane lane{.schedule = schedule, .workers = workers};
  int device = 0;
  for (std::size_t s = 0; s < replicas.size(); ++s) {
    plan::PipelineStage stage{.layers = {"l" + std::to_string(s)}, .devices = {}, .seconds = 3};
    for (int i = 0; i < replicas[s]; ++i) {
      stage.devices.push_back(one_node ? cluster::DeviceId{"n0", device++}
                                       : cluster::DeviceId{"n" + std::to_string(s), i});
    }
    lane.stages.push_back(std::move(stage));
  }
  plan::Plan plan{.model = "m", .gbs = workers, .lbs = 1, .cost_model = "none"};
  plan.pipeline_lanes = {std::move(lane)};
  return plan;
}

inline plan::Plan data_plan(int devices, int vsw, int ga, const std::string& node = "n0") {
  plan::Plan plan{.model = "m", .gbs = devices * vsw * (ga + 1), .lbs = 1, .cost_model = "none"};
  for (int i = 0; i < devices; ++i) plan.data_lanes.push_back({.device = {node, i}, .vsw = vsw, .ga = ga});
  return plan;
}

/// The same for every device; one bucket of 0 bytes for each segment.
inline Costs uniform_costs(const plan::Schedule& schedule, double forward, double backward) {
  Costs costs;
  for (const auto& segment : schedule.segments) {
    costs.bucket_bytes.emplace_back(static_cast<std::size_t>(segment.buckets), 0.0);
  }
  for (const auto& program : schedule.programs) {
    ProgramCosts cost{.forward = forward, .recompute = forward, .backward = backward};
    for (const int segment : program.segments) {
      const auto buckets = static_cast<std::size_t>(schedule.segments[static_cast<std::size_t>(segment)].buckets);
      cost.buckets.resize(cost.buckets.size() + buckets);
    }
    costs.programs.push_back(std::move(cost));
  }
  return costs;
}

inline plan::Schedule schedule_of(const plan::Plan& plan, const plan::ScheduleRequest& request = {}) {
  auto schedule = plan::make_schedule(plan, request);
  EXPECT_TRUE(schedule.ok()) << schedule.error().to_string();
  return schedule.ok() ? *schedule : plan::Schedule{};
}

inline SimReport run(const plan::Schedule& schedule, const Costs& costs, const Network& network,
                     const SimOptions& options = {}) {
  auto report = simulate(schedule, costs, network, options);
  EXPECT_TRUE(report.ok()) << report.error().to_string();
  return report.ok() ? *report : SimReport{};
}

inline SimReport run(const plan::Schedule& schedule, const Costs& costs, const SimOptions& options = {}) {
  return run(schedule, costs, Network::ideal(static_cast<int>(schedule.programs.size())), options);
}

inline cluster::Cluster nodes(int count, int devices, double intra, double inter, const std::string& type = "gpu") {
  std::vector<cluster::Node> list;
  for (int i = 0; i < count; ++i) {
    list.push_back({.name = "n" + std::to_string(i),
                    .devices = devices,
                    .type = type,
                    .intra_bandwidth = base::Bandwidth{intra},
                    .inter_bandwidth = base::Bandwidth{inter}});
  }
  return *cluster::Cluster::make(list);
}

inline Network network_of(const plan::Schedule& schedule, const cluster::Cluster& cluster,
                          const NetworkOptions& options = {}) {
  std::vector<cluster::DeviceId> devices;
  for (const auto& program : schedule.programs) devices.push_back(program.device);
  auto network = Network::make(cluster, devices, options);
  EXPECT_TRUE(network.ok()) << network.error().to_string();
  return network.ok() ? *network : Network::ideal(1);
}

}  // namespace yoke::sim
