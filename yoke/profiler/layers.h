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

/// The blocks of one model with their weights, which are loaded once for all visits. One thread owns it.
class LayerTimer {
 public:
  /// The session must outlive it.
  static base::Result<std::unique_ptr<LayerTimer>> open(Session& session, const models::LossOptions& loss);
  virtual ~LayerTimer() = default;

  /// One visit: a chain of the model's blocks, in order. What a block puts out is all that crosses a cut behind it, but
  /// for what the model was given (targets) and passes on. The loss counts to the last block. Times are those of the
  /// device at full speed, however slow it is to seem: planners divide them by the speed of each node. Its confidence
  /// is that of a whole pass, `noisy` above that spread. Input error that names the block that libtorch refuses,
  /// forward or backward.
  virtual base::Result<profile::LayerGraph> measure(int lbs, const Patience& patience, double noisy,
                                                    const base::Clock& clock) = 0;
};

/// Milliseconds of all layers, forward, backward and to update.
double pass_ms(const profile::LayerGraph& graph);

/// The block that a training step fails at, as LayerTimer tells it; nothing when all blocks work one by one.
std::optional<base::Error> find_failing_block(Session& session, int lbs, const base::Clock& clock);

}  // namespace yoke::profiler
