// A lane runs a rank's share of a step's workers: a data lane (data_lane.h) the whole model, a stage lane
// (stage_lane.h) the blocks of one pipeline stage. What both are given and report, and what a pass is in both.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/base/rng.h"
#include "yoke/base/trace.h"
#include "yoke/data/loader.h"
#include "yoke/models/model.h"
#include "yoke/plan/job.h"
#include "yoke/tensor/device.h"

namespace yoke::engine {

/// The deadline of a wait for other ranks that begins now.
using Until = std::function<base::Deadline()>;

/// Of a wait for a thread of this process. That one may itself wait for another rank until `by`, and then knows which
/// rank is late: it has the first word.
inline base::Deadline after_peers(const base::Deadline& by) {
  return base::Deadline::at(by.instant() + std::chrono::seconds(3));
}

/// One worker of a step, or one batch of an evaluation.
struct Work {
  std::int64_t worker = 0;
  std::unique_ptr<data::Ticket> ticket;  // its samples, on their way; absent where another stage loads them
  std::optional<data::Batch> batch;      // or here already
  double weight = 1;                     // its gradient's in the sum; 0: it has no samples
  double loss_scale = 1;                 // the loss is multiplied by it before the backward pass
  base::StreamName draw;                 // for dropout
};

/// What a lane has done. Sums over its workers; a stage reports what it knows: the first one skipped samples, the last
/// one losses.
struct LaneReport {
  double loss = 0;  // sample-weighted sum
  std::int64_t samples = 0;
  std::int64_t skipped = 0;
  std::int64_t correct = 0;                // evaluation only
  std::optional<std::int64_t> bad_worker;  // whose loss was not finite
  double data_seconds = 0;                 // of the slowest slot, waiting for samples
  double forward_seconds = 0;              // of the slowest slot
  double backward_seconds = 0;

  void add(const models::Score& score, double loss_value, std::int64_t worker);
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

/// The generator of a worker's own draws.
at::Generator generator_for(const base::StreamName& name, const tensor::Device& device);

/// A forward pass in the job's precision.
void forward(models::Network& network, models::Flow& flow, const models::Pass& pass, plan::Precision precision,
             torch::Device device);

using Sleep = std::function<void(base::Duration)>;
void sleep_for(base::Duration time);
/// Sleeps as long as a device of this speed would have computed longer.
void wait_as_slow_device(double speed, base::Duration computed, const Sleep& sleep = sleep_for);

/// Runs `compute`; whatever libtorch throws becomes an error that says which worker it was.
base::Status attempt(std::int64_t worker, const std::function<base::Status()>& compute);

}  // namespace yoke::engine
