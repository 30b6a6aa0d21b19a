// What is kept of training and taken back: the state of the whole model as one checkpoint, wherever its blocks are
// held. Free functions on what the trainer owns, called in its thread between two steps.
#pragma once

#include <string>
#include <string_view>

#include "yoke/base/result.h"
#include "yoke/comm/group.h"
#include "yoke/data/sampler.h"
#include "yoke/engine/checkpoint/checkpoint.h"
#include "yoke/engine/holding.h"
#include "yoke/engine/lane.h"
#include "yoke/engine/layout.h"
#include "yoke/engine/training_progress.h"
#include "yoke/models/model.h"
#include "yoke/plan/job.h"
#include "yoke/tensor/device.h"

namespace yoke::engine {

/// What a snapshot is of, all borrowed.
struct SnapshotSource {
  const models::Architecture& architecture;
  const plan::Job& job;
  tensor::Device& device;
  const Holding& holding;
  const TrainingProgress& progress;
  const Layout* layout = nullptr;  // null: this rank holds the whole model and has no plan yet
  comm::Group* group = nullptr;    // null: there are no other ranks
};

/// What often helps when losses or weights are no longer finite: the end of such messages.
inline constexpr std::string_view kWhatHelps =
    "A smaller optimizer.lr, lr.warmup_steps or optimizer.clip_norm often help";

/// Every rank of the group calls it; rank 0 gets all of the model, gathered block by block where stages hold parts of
/// it, the others what describes it. Input error on all of them if a weight is not finite.
base::Result<Checkpoint> take_snapshot(const SnapshotSource& from, const Until& until);

/// Takes a checkpoint's state; `architecture` and `sampler` are the job's. Input error that names what does not fit;
/// nothing is changed then: so too for a holding of a part of the model.
base::Status restore_snapshot(const Checkpoint& checkpoint, const std::string& where,
                              const models::Architecture& architecture, const data::Sampler& sampler, Holding& holding,
                              TrainingProgress& progress);

/// Copies all weights and buffers in. Errors as above.
base::Status load_weights(const NamedTensors& weights, const std::string& where, Holding& holding);

}  // namespace yoke::engine
