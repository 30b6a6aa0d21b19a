// The best plan of any kind for a model on a cluster, from whatever profiles there are: what `yoke plan auto` prints
// and `yoke run` trains by.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/cli/command.h"
#include "yoke/cluster/cluster.h"
#include "yoke/plan/job.h"
#include "yoke/plan/solve/auto/auto.h"
#include "yoke/profile/layer_graph.h"
#include "yoke/profile/profile.h"
#include "yoke/sim/network.h"

namespace yoke::cli {

/// What is known of a model; at least one of the two.
struct ModelProfiles {
  std::optional<profile::ProfileSet> profiles;
  std::vector<profile::LayerGraph> graphs;  // of unlike local batch sizes; the folder's own first
};

/// As load_any_profile(), with the layer profiles of other local batch sizes that `yoke profile` left in the folder.
base::Result<ModelProfiles> load_model_profiles(const std::string& path, Context& context);

struct AutoPlanRequest {
  /// Schedules that keep the math unless said otherwise. `lbs` has no effect.
  plan::AutoRequest search;
  std::vector<int> local;  // local batch sizes to choose from; empty: all profiled, and for pipelines the folder's own
  sim::NetworkOptions network;  // what is 0 is taken from the profiles
};

/// Numbers that the optimizer keeps per weight.
int optimizer_copies(const plan::OptimizerSpec& optimizer);

/// What the job says: batch sizes, optimizer, sync, model, and the schedules that its `parallel` allows. Input errors
/// name its keys.
base::Result<AutoPlanRequest> request_of(const plan::Job& job);

/// Data lanes by measured steps (plan::choose_cost) where there are any, else by the sums of a layer profile; pipelines
/// by layer profiles. What cannot be considered is logged when something else can. Errors as of plan::solve_auto, at
/// its fields.
base::Result<plan::AutoResult> solve_auto_plan(const cluster::Cluster& cluster, const ModelProfiles& known,
                                               const AutoPlanRequest& request, Context& context);

/// One line: what the fastest candidate gains over the best of another kind, and what makes the difference.
std::string why_it_won(const plan::AutoResult& result);

}  // namespace yoke::cli
