// Trains on one device of a group: the state (weights, optimizer, data cursor), one step at a time, under a plan that
// may change between any two steps. The state does not depend on the plan or the group: configure() takes others in its
// place, and ranks that come anew get the state from one that has it. Adaptive batching, scaling and recovery are calls
// of configure().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/comm/group.h"
#include "yoke/data/dataset.h"
#include "yoke/data/sampler.h"
#include "yoke/engine/checkpoint/checkpoint.h"
#include "yoke/engine/data_lane.h"
#include "yoke/engine/evaluation.h"
#include "yoke/engine/holding.h"
#include "yoke/engine/loss_scale.h"
#include "yoke/engine/measure.h"
#include "yoke/engine/rank.h"
#include "yoke/models/model.h"
#include "yoke/plan/job.h"
#include "yoke/plan/plan.h"
#include "yoke/tensor/device.h"

namespace yoke::engine {

struct TrainerOptions {
  plan::Job job;
  models::Architecture architecture;
  const data::Dataset* train = nullptr;
  const data::Dataset* test = nullptr;  // absent: nothing to evaluate on
  tensor::Device* device = nullptr;
  double speed = 1;
  TraceSink trace;
  std::optional<LossScaleOptions> loss_scale;         // absent: none; fp16 needs it
  bool meet = false;                                  // LaneOptions::meet
  base::Duration patience = std::chrono::minutes(5);  // of every wait for other ranks
  bool holds_all = true;  // the whole model from the start; else what the plan wants, when it is known
};

/// One thread owns it.
class Trainer {
 public:
  /// Weights are fresh from the job's seed. What `options` points at must outlive the trainer.
  static base::Result<std::unique_ptr<Trainer>> make(TrainerOptions options, const base::Clock& clock);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// From the next step on trains by this plan in this group, whose rank i is `devices[i]`: data lanes, pipeline lanes,
  /// or both beside each other. Every rank of the group calls it. Afterwards all have, in the blocks they hold, the
  /// state of the one that is furthest. Input error if the plan does not fit the devices or the model, or if ranks were
  /// given different ones. A rank whose step has failed takes the state of the others; peer error if none has it.
  /// Precondition: at_rest(), or the last step has failed.
  base::Status configure(const plan::Plan& plan, std::unique_ptr<comm::Group> group,
                         const std::vector<cluster::DeviceId>& devices);
  /// Gives the group back, e.g. to plan anew with it. Precondition: configured.
  std::unique_ptr<comm::Group> release_group();

  /// One update. Precondition: configured and not finished(). On an error the step may have been applied in part and
  /// the group is of no more use: only restore(), configure() with another group, or the end may follow. `stop`: this
  /// rank would like to stop; wants_stop() then tells, on all ranks, whether any would.
  base::Result<StepReport> step(bool stop = false);
  bool wants_stop() const;
  /// Whether the state is that after the last step and nothing beyond: not after one that failed. Pipelines that are
  /// not drained after each step are at rest now and then only: at the end of an epoch, when a checkpoint is due, and
  /// every few hundred steps.
  bool at_rest() const;
  /// Whether all epochs are done.
  bool finished() const;
  /// On the test data, shared by all ranks.
  base::Result<Evaluation> evaluate();

  const data::Cursor& cursor() const;
  std::int64_t skipped_samples() const;
  std::int64_t total_samples() const;
  std::int64_t steps_per_epoch() const;
  comm::Group& group();

  /// Every rank of the group calls it; rank 0 gets all of the model, the others what describes it. Input error on
  /// all of them if a weight is not finite: what training cannot go on with shall not replace what it can.
  /// Precondition: at_rest().
  base::Result<Checkpoint> snapshot();
  /// Takes a checkpoint's state; after a failed step that of all blocks. Input error that names what does not fit;
  /// nothing is changed then.
  base::Status restore(const Checkpoint& checkpoint, const std::string& where);
  /// Copies these weights in before training, e.g. pretrained ones.
  base::Status load(const NamedTensors& weights, const std::string& where);

  /// Forward and backward passes of workers of `lbs` samples, `vsw` at a time, without an update: for planning. The
  /// state is unchanged.
  base::Result<Measurement> measure(int lbs, int vsw);
  /// Seconds of updating all buckets, and of reducing them in `group`. Precondition: no step was done yet.
  double measure_update();
  base::Result<double> measure_all_reduce(comm::Group& group);
  StateBytes state_bytes() const;
  /// The sizes of the gradient buckets in MiB, without the gaps between parameters.
  std::vector<double> bucket_mebibytes() const;
  /// What this device did in the last step.
  const LaneReport& last_lane() const;

 private:
  struct Core;
  explicit Trainer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace yoke::engine
