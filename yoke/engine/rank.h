// One rank of a training job, from joining to its result: what `yoke train` runs, and `yoke run` starts for each
// device. This header is free of torch, so that `cli` can use it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/base/trace.h"
#include "yoke/comm/group.h"
#include "yoke/plan/job.h"
#include "yoke/plan/plan.h"

namespace yoke::engine {

/// A device as the engine sees it. Rank i runs on the i-th.
struct DeviceSpec {
  cluster::DeviceId id;
  std::string type = "cpu";
  double speed = 1;                          // below 1: waits so much longer than it computed
  std::optional<std::int64_t> memory_bytes;  // what workers may use
  int threads = 1;                           // for kernels, shared by the workers that run at once
};

/// One step, as metrics.jsonl tells it.
struct StepReport {
  std::int64_t step = 0;  // from 1
  std::int64_t epoch = 0;
  std::int64_t gbs = 0;
  std::int64_t lbs = 0;
  std::int64_t workers = 0;
  double loss = 0;  // sample-weighted mean over all workers
  double lr = 0;
  double step_seconds = 0;
  double samples_per_second = 0;
  std::int64_t samples = 0;        // that the step used; fewer than gbs at the end of an epoch
  std::int64_t total_samples = 0;  // of all epochs so far
  std::int64_t total_steps = 0;    // that the training will have, as far as is known; 0: unknown
};

/// Something that happened to the job, as events.jsonl tells it.
struct Event {
  std::string kind;    // plan, checkpoint, resume, fallback, evaluation, skip, interrupt, ...
  std::string detail;  // one sentence for people
  std::int64_t step = 0;
  std::vector<std::pair<std::string, double>> values = {};
};

/// What the caller of train_rank() is told. On rank 0 all of it, on other ranks only events of their own. Called from
/// the thread that called train_rank().
class Observer {
 public:
  virtual ~Observer() = default;
  /// The plan that runs from now on; first before the first step.
  virtual void on_plan(const plan::Plan& plan) = 0;
  virtual void on_step(const StepReport& report) = 0;
  virtual void on_event(const Event& event) = 0;
  /// Asked after every step on every rank: whether this rank was told to stop (Ctrl-C, SIGTERM). If any rank was, all
  /// save and leave.
  virtual bool stop_requested() = 0;
};

struct RankOptions {
  plan::Job job;
  std::optional<plan::Plan> plan;   // absent: measure a few steps of each local batch size and plan with that
  std::vector<DeviceSpec> devices;  // by rank
  std::string checkpoints;          // folder; empty: none are written
  bool resume = false;              // go on from the newest checkpoint, if there is one
  base::Trace* trace = nullptr;     // gets this rank's spans; times count from `trace_origin`
  base::Instant trace_origin{};
  base::Duration patience = std::chrono::minutes(5);  // the deadline of every wait for other ranks
};

struct RankResult {
  bool interrupted = false;  // stopped on request, saved
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double epochs = 0;
  double train_loss = 0;
  std::optional<double> test_loss;
  std::optional<double> test_accuracy;  // absent: the data set has no test part
  double predicted_step_seconds = 0;    // 0: nobody predicted
  double measured_step_seconds = 0;     // median of full steps after the first few
  std::string weights_sha256;
  std::int64_t recoveries = 0;
  std::int64_t skipped_samples = 0;
};

/// That libtorch can compute on, of this machine.
int gpu_count();

/// Before a group over NCCL is joined: its ops are on the memory of this device. Nothing for one that is no CUDA
/// device.
void select_device(const DeviceSpec& device);

/// Trains. Every rank of `group` calls it with the same job, plan and devices. Errors: kInput for a job that cannot be
/// trained, kPeer for lost ranks, full disks; the last good checkpoint is kept.
base::Result<RankResult> train_rank(const RankOptions& options, std::unique_ptr<comm::Group> group, Observer& observer,
                                    const base::Clock& clock);

}  // namespace yoke::engine
