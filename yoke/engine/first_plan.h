// A plan for a job that nobody has profiled: every rank measures a few passes of each local batch size at the same
// time, as they will run, and the batch solver deals the workers by what was found. Takes seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/comm/group.h"
#include "yoke/engine/rank.h"
#include "yoke/engine/trainer.h"
#include "yoke/plan/plan.h"

namespace yoke::engine {

struct FirstPlan {
  plan::Plan plan;
  std::optional<double> equal_split_step_seconds;  // if every device ran as many workers
  std::string sync_reason;                         // why the plan's `sync` is what it is
  std::string note;  // what the user should know: a local batch that does not fit; empty: nothing
};

/// Local batch sizes worth a try: those of the job, or else up to eight that divide the global batch and give every
/// device a worker.
std::vector<int> local_batches_to_try(const plan::BatchSpec& batch, int devices);

/// Every rank calls it and gets the same plan. `at_most`: a local batch size that was found too large.
base::Result<FirstPlan> measure_and_plan(Trainer& trainer, comm::Group& group, const RankOptions& options,
                                         const base::Clock& clock, std::optional<int> at_most = std::nullopt);

/// Whether `lbs` samples at a time, `vsw` times, fit the memory of this rank's device, judged by a pass of few samples.
base::Result<bool> fits_memory(Trainer& trainer, const DeviceSpec& device, int lbs, int vsw);

}  // namespace yoke::engine
