// Jobs and plans from other tools' descriptions. What a foreign file does not say is filled with a stated default, and
// every such guess is a note for the user.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/plan/import/jabas.h"
#include "yoke/plan/job.h"
#include "yoke/plan/plan.h"
#include "yoke/profile/layer_graph.h"
#include "yoke/profile/pipedream/driver.h"
#include "yoke/profile/pipedream/partition.h"

namespace yoke::plan {

struct ImportedJob {
  Job job;
  std::vector<std::string> notes;  // guesses and losses, one line each
};

/// JABAS starts at its lower bound and adapts from there; IIDP names no batch, so every device gets one worker of the
/// smallest local batch size.
ImportedJob job_of(const JabasWorkspace& workspace);

/// One update of a PipeDream job averages one minibatch of each replica of the first stage (of each machine without a
/// partition).
ImportedJob job_of(const profile::pipedream::Driver& driver,
                   const std::optional<profile::pipedream::Partition>& partition);

/// The partition as a plan on the devices of `cluster`, rank by rank. Stages hold the layers of `graph` when that has
/// stage ids, else the generated modules by number (`module0`, ...). Input error when ranks and devices, or the stages
/// of partition and graph, do not agree.
base::Result<Plan> plan_of(const profile::pipedream::Partition& partition,
                           const std::optional<profile::LayerGraph>& graph, const cluster::Cluster& cluster,
                           const std::string& model, std::int64_t lbs);

/// `vgg16` of `models.vgg16.gpus=4`.
std::string model_name_of(const profile::pipedream::Driver& driver);

}  // namespace yoke::plan
