// A data lane: one device that holds the whole model and runs the workers of its share of a step, `vsw` at a time. Each
// of the `vsw` slots is a thread with a replica of the network that shares the weights; it takes its workers one after
// another (the rounds of gradient accumulation) and hands every gradient to the GradientSum as soon as it exists.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/base/rng.h"
#include "yoke/base/trace.h"
#include "yoke/data/loader.h"
#include "yoke/engine/gradient_sum.h"
#include "yoke/engine/parameters.h"
#include "yoke/models/model.h"
#include "yoke/plan/job.h"
#include "yoke/tensor/device.h"

namespace yoke::engine {

/// One worker of a step, or one batch of an evaluation.
struct Work {
  std::int64_t worker = 0;
  std::unique_ptr<data::Ticket> ticket;  // its samples, on their way
  std::optional<data::Batch> batch;      // or here already
  double weight = 1;                     // its gradient's in the sum
  double loss_scale = 1;                 // the loss is multiplied by it before the backward pass
  base::StreamName draw;                 // for dropout
};

/// What a lane has done. Sums over its workers.
struct LaneReport {
  double loss = 0;  // sample-weighted sum
  std::int64_t samples = 0;
  std::int64_t skipped = 0;
  std::int64_t correct = 0;                // evaluation only
  std::optional<std::int64_t> bad_worker;  // whose loss was not finite
  double data_seconds = 0;                 // of the slowest slot, waiting for samples
  double forward_seconds = 0;              // of the slowest slot
  double backward_seconds = 0;
};

/// Where the spans of a rank's timeline go; absent: nowhere.
struct TraceSink {
  base::Trace* trace = nullptr;
  int rank = 0;
  base::Instant origin{};

  void span(int thread, const std::string& name, const std::string& category, base::Instant begin,
            base::Instant end) const {
    if (trace != nullptr) trace->span({rank, thread}, name, category, begin - origin, end - begin);
  }
};

struct LaneOptions {
  double speed = 1;  // below 1: after its work a slot waits so much longer than it took
  plan::Precision precision = plan::Precision::kFp32;
  models::LossOptions loss;
  TraceSink trace;
  bool meet = false;  // workers that run at once begin their backward passes together, so that all their activations
                      // are there at one moment: the most memory that a step can take
};

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
  /// threads. Always call it from the same thread.
  base::Result<LaneReport> run_here(std::vector<Work> work, const base::Deadline& deadline);
  /// Begins forward passes alone, in evaluation mode and with the model's own buffers.
  void start_evaluation(std::vector<Work> work, const base::Deadline& deadline);
  /// Until everything started is done. The first error of any slot, if there was one.
  base::Result<LaneReport> finish(const base::Deadline& deadline);

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace yoke::engine
