// The blocks of a model, one by one: how long each takes forward, backward and to update, what it puts out and what it
// holds. Each is a stage of the engine's, so that what is measured is what trains: the backward pass adds gradients to
// the sum of a step, the update is the job's optimizer.
#pragma once

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/profile/layer_graph.h"
#include "yoke/profiler/series.h"
#include "yoke/profiler/session.h"

namespace yoke::profiler {

struct LayerRequest {
  int lbs = 1;
  models::LossOptions loss;
  Patience patience;
};

/// A chain of the model's blocks, in order. What a block puts out is all that crosses a cut behind it, but for what the
/// model was given (targets) and passes on. The loss counts to the last block. Times are those of the device at full
/// speed, however slow it is to seem: planners divide them by the speed of each node. Input error that names the block
/// that libtorch refuses, forward or backward.
base::Result<profile::LayerGraph> measure_layers(Session& session, const LayerRequest& request,
                                                 const base::Clock& clock);

/// The block that a training step fails at, as measure_layers() tells it; nothing when all blocks work one by one.
std::optional<base::Error> find_failing_block(Session& session, int lbs, const base::Clock& clock);

}  // namespace yoke::profiler
