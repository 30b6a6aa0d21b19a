// The best of everything: candidates from the batch solver (data lanes), from the pipeline solver (each schedule that
// is allowed) and mixes of both on unlike devices, each judged by whoever the caller trusts. This solver does not know
// how plans are judged; the simulator is one judge (sim/judge.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/plan/cost/batch_cost.h"
#include "yoke/plan/plan.h"
#include "yoke/plan/schedule.h"
#include "yoke/plan/solve/batch/batch.h"
#include "yoke/profile/layer_graph.h"

namespace yoke::plan {

/// What a judge says of a plan.
struct Judgement {
  double step_seconds = 0;
  // Shares of the devices' time.
  double computing = 0;
  double exposed_communication = 0;
  double bubble = 0;
  double peak_bytes = 0;  // of the device that needs most; 0: not known
  std::string excess;     // what does not fit which memory; empty: all fits
};

class PlanJudge {
 public:
  virtual ~PlanJudge() = default;
  /// An error: the plan cannot run, and why.
  virtual base::Result<Judgement> judge(const Plan& plan) const = 0;
};

struct AutoRequest {
  int gbs = 0;
  std::optional<int> lbs;    // absent: the batch solver's choice, and for pipelines that of the layer profile
  std::optional<Sync> sync;  // absent: what the cost model recommends
  /// Which may be used. kData stands for plans of data lanes alone.
  std::vector<ScheduleKind> schedules{ScheduleKind::kData, ScheduleKind::kFlush, ScheduleKind::kGpipe};
  int optimizer_copies = 1;
  std::string profiled_on;  // device type of the layer profile; empty: the fastest
  std::string model;        // for the plan
};

/// What is known of the model; borrowed. `cost` without a graph: data lanes only. At least one.
struct AutoInputs {
  const cluster::Cluster& cluster;
  const BatchCost* cost = nullptr;
  std::string cost_name = {};                  // of that cost model, for the plan
  std::string no_cost = {};                    // without one: why, if that is for want of memory
  const profile::LayerGraph* graph = nullptr;  // of minibatches of AutoRequest::lbs, if that is given
};

struct Candidate {
  std::string name;  // `data lanes`, `1f1b-flush pipeline 2-1-1`
  Plan plan;
  Judgement judgement;
  std::optional<BatchSolution> solution = {};  // that data lanes come from
};

struct AutoResult {
  std::vector<Candidate> candidates;  // that fit, the fastest first; at least one
  std::vector<std::string> left_out;  // what was considered and cannot run, and why
};

/// Deterministic. Ties: the earlier kind of candidate, in the order data lanes, one pipeline, a pipeline in each node,
/// mixes. Input errors name the field of the request. Infeasible, with the limit that binds, when nothing fits.
base::Result<AutoResult> solve_auto(const AutoInputs& inputs, const AutoRequest& request, const PlanJudge& judge);

}  // namespace yoke::plan
