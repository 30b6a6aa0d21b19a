// The simulator as a judge of plans (plan/solve/auto).
#pragma once

#include <optional>

#include "yoke/cluster/cluster.h"
#include "yoke/plan/solve/auto/auto.h"
#include "yoke/profile/layer_graph.h"
#include "yoke/sim/costs.h"
#include "yoke/sim/network.h"

namespace yoke::sim {

/// Immutable; any thread. With a layer profile a plan is executed on the cluster's network and held against its memory;
/// without one, by its own predictions. Schedules that are drained in each step by one step, the others by several once
/// their pipeline is full.
class SimulatedJudge final : public plan::PlanJudge {
 public:
  /// `graph`, if any, is borrowed.
  SimulatedJudge(cluster::Cluster cluster, const profile::LayerGraph* graph, CostOptions costs = {},
                 NetworkOptions network = {})
      : cluster_(std::move(cluster)), graph_(graph), costs_(std::move(costs)), network_(network) {}

  base::Result<plan::Judgement> judge(const plan::Plan& plan) const override;

 private:
  cluster::Cluster cluster_;
  const profile::LayerGraph* graph_;
  CostOptions costs_;
  NetworkOptions network_;
};

}  // namespace yoke::sim
