// A data lane: one device that holds the whole model and runs the workers of its share of a step, `vsw` at a time. Each
// of the `vsw` slots is a thread with a replica of the network that shares the weights; it takes its workers one after
// another (the rounds of gradient accumulation) and hands every gradient to the GradientSum as soon as it exists.
#pragma once

#include <memory>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/engine/gradient_sum.h"
#include "yoke/engine/lane.h"
#include "yoke/engine/parameters.h"
#include "yoke/models/model.h"
#include "yoke/tensor/device.h"

namespace yoke::engine {

/// One thread owns it. Everything given by reference must outlive it.
class DataLane {
 public:
  DataLane(const models::Architecture& architecture, Parameters& parameters, GradientSum& gradients,
           tensor::Device& device, const LaneOptions& options, const base::Clock& clock);
  ~DataLane();
  DataLane(const DataLane&) = delete;
  DataLane& operator=(const DataLane&) = delete;

  /// How many workers run at once from now on. Between steps only.
  void resize(int vsw);
  int vsw() const;

  /// Begins a step: forward and backward passes of all `work`, which the slots share. Errors cancel the gradient sum.
  void start(std::vector<Work> work, const base::Deadline& deadline);
  /// A whole step in the calling thread, one worker after another: where nothing runs beside it, this saves waking
  /// threads. Every thread that computes has kernel threads of its own, which get in each other's way: so always call it
  /// from the same thread, and for all that can be done in one.
  base::Result<LaneReport> run_here(std::vector<Work> work, const base::Deadline& deadline);
  /// Forward passes alone, in evaluation mode and with the model's own buffers; `here`: in the calling thread.
  base::Result<LaneReport> evaluate(std::vector<Work> work, bool here, const base::Deadline& deadline);
  /// Until everything started is done. The first error of any slot, if there was one.
  base::Result<LaneReport> finish(const base::Deadline& deadline);

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace yoke::engine
