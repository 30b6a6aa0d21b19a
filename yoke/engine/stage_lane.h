// One stage of a pipeline on one device: runs the compute stream of its program (plan/schedule.h), op by op, in a
// thread of its own, and sends and receives flows beside it. Gradients go to the GradientSum as they come; who reduces
// and updates is up to the caller: the trainer's own thread for schedules that end with each step, this thread
// (ReducerStep) for those that do not.
//
// Every version of the weights that passes still need has a replica and storage of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/comm/group.h"
#include "yoke/engine/holding.h"
#include "yoke/engine/lane.h"
#include "yoke/engine/stage_script.h"
#include "yoke/models/model.h"
#include "yoke/plan/schedule.h"
#include "yoke/tensor/device.h"

namespace yoke::engine {

/// Executes a kReduce, kNorm or kUpdate.
using ReducerStep = std::function<base::Status(const plan::ScheduleOp& op, const base::Deadline& deadline)>;
/// The work of a worker of the script. Called in the stage's thread, once for each of its workers, as they enter.
using Supplier = std::function<Work(int worker)>;

/// One thread owns it. Everything given by reference must outlive it.
class StageLane {
 public:
  StageLane(const models::Architecture& architecture, Holding& holding, comm::Group& group, tensor::Device& device,
            const LaneOptions& options, const base::Clock& clock);
  ~StageLane();
  StageLane(const StageLane&) = delete;
  StageLane& operator=(const StageLane&) = delete;

  /// Begins a script of one step whose reducer stream someone else runs. `work` is that of this device's workers, with
  /// Work::worker as in the script. Errors cancel the gradient sum.
  void start(StageScript script, std::vector<Work> work, const base::Deadline& deadline);
  /// Begins a script of many steps and runs both of its streams. Every worker must have samples. `patience` is the
  /// deadline of every wait.
  void start(StageScript script, Supplier supplier, ReducerStep reducer, base::Duration patience);
  /// Until this device is through with the first `steps` steps of the script; what it has done in the last of them.
  /// Gives up some seconds after the deadline of a wait that begins with the op under way.
  base::Result<LaneReport> reach(int steps);
  /// Until all of it is done; of all steps together.
  base::Result<LaneReport> finish();

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace yoke::engine
