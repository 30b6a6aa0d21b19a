// What `yoke run` and rank 0 of `yoke train` do before training: read the job, plan, take the run folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/cli/command.h"
#include "yoke/cli/run/run_folder.h"
#include "yoke/cluster/cluster.h"
#include "yoke/plan/job.h"
#include "yoke/plan/plan.h"

namespace yoke::cli {

struct RunOptions {
  std::string job;
  std::string cluster;
  std::vector<std::string> set;
  std::string run_dir;
  bool resume = false;
  bool trace = false;
  std::optional<int> metrics_port;
  std::string backend = "auto";
  std::string patience = "5min";
  bool emulate_links = false;

  void declare(Arguments& command);
  /// How long a rank that trains waits for the others. Input error at --patience.
  base::Result<base::Duration> wait() const;
};

/// A plan before the first step, with what it is worth.
struct JobPlan {
  plan::Plan plan;
  std::string source;  // `from plans/a.json`, for people
  std::string why;     // it won among unlike kinds of plans, or syncs as it does
  std::optional<double> equal_split_step_seconds;
};

/// The plan file that the job names, else what is solved from the profiles that it names: the best of data lanes,
/// pipelines and mixes (as far as `parallel` allows) with a layer profile, data lanes without one; else none: the
/// engine then measures and plans data lanes. Input error when the plan uses devices that the cluster has not, or the
/// job wants pipelines and there is no layer profile to plan them by; infeasible when a stage of a plan file was foreseen
/// to need more memory than a device has.
base::Result<std::optional<JobPlan>> plan_job(const plan::Job& job, const cluster::Cluster& cluster, Context& context);

struct PreparedRun {
  plan::Job job;
  RunFolder folder;
  std::optional<JobPlan> plan;
};

/// Everything that can be refused is refused before the folder is touched. Leaves job.yaml, cluster.yaml, plan.json (if
/// there is a plan) and the events of the start in the folder. A run that is resumed keeps its plan as long as cluster,
/// batch and parallel settings are the same, so that it goes on with the same local batches.
base::Result<PreparedRun> prepare_run(const RunOptions& options, const cluster::Cluster& cluster, Context& context);

/// What ranks may talk by, whoever has started them.
std::vector<std::string> launched_backends();
/// Input error at --backend for a name that is not one of `names`.
base::Status check_backend(const std::string& backend, const std::vector<std::string>& names);

}  // namespace yoke::cli
