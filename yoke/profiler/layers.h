// The blocks of a model, one by one: how long each takes forward and backward, what it puts out and what it holds.
#pragma once

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/profile/layer_graph.h"
#include "yoke/profiler/series.h"
#include "yoke/profiler/session.h"

namespace yoke::profiler {

struct LayerRequest {
  int lbs = 1;
  double speed = 1;  // of the device: times count as that of a device so much slower
  models::LossOptions loss;
  Patience patience;
};

/// A chain of the model's blocks, in order. What a block puts out is all that crosses a cut behind it, but for what the
/// model was given (targets) and passes on. The loss counts to the last block. Input error that names the block that
/// libtorch refuses, forward or backward.
base::Result<profile::LayerGraph> measure_layers(Session& session, const LayerRequest& request,
                                                 const base::Clock& clock);

/// The block that a training step fails at, as measure_layers() tells it; nothing when all blocks work one by one.
std::optional<base::Error> find_failing_block(Session& session, int lbs, const base::Clock& clock);

}  // namespace yoke::profiler
