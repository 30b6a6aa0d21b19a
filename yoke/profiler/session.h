// The engine on one device, alone in its group, doing steps of any shape: what every measurement is made of.
#pragma once

#include <cstdint>
#include <memory>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/engine/trainer.h"
#include "yoke/models/torch_reason.h"
#include "yoke/profiler/profiler.h"

namespace yoke::profiler {

/// Seconds of one step.
struct StepTimes {
  double total = 0;
  double data = 0;  // waiting for samples
  double forward = 0;
  double backward = 0;
};

/// One thread owns it.
class Session {
 public:
  /// `meet`: LaneOptions::meet.
  static base::Result<std::unique_ptr<Session>> open(const Subject& subject, bool meet, const base::Clock& clock);

  /// Steps of `vsw` workers of `lbs` samples at a time, in `ga` + 1 rounds, from now on. Input error when the data set
  /// has fewer samples than such a step.
  base::Status configure(int lbs, int vsw, int ga);
  /// Of full size: a short one at the end of an epoch is not counted.
  base::Result<StepTimes> step();

  /// The most bytes in tensors since the last call, or since open().
  std::int64_t take_peak_bytes();
  double update_seconds() const { return update_seconds_; }
  engine::StateBytes state_bytes() const { return trainer_->state_bytes(); }
  std::vector<double> bucket_mebibytes() const { return trainer_->bucket_mebibytes(); }
  /// The subject's, made to stand still.
  const plan::Job& job() const { return job_; }
  const models::Architecture& architecture() const { return architecture_; }
  const data::Dataset& data() const { return *data_; }
  tensor::Device& device() { return *device_; }

 private:
  Session() = default;

  cluster::DeviceId id_;
  plan::Job job_;
  std::unique_ptr<tensor::Device> device_;
  std::unique_ptr<data::Dataset> data_;
  models::Architecture architecture_;
  std::unique_ptr<comm::Group> group_;  // while the trainer has none
  double update_seconds_ = 0;
  std::unique_ptr<engine::Trainer> trainer_;  // last: uses everything above
};

/// What libtorch throws outside the engine's own threads, as an error: memory that a limit refuses is infeasible.
template <typename Make>
auto guarded(Make make) -> decltype(make()) {
  try {
    return make();
  } catch (const base::Failure& failure) {
    return failure.error();
  } catch (const std::bad_alloc&) {
    return base::infeasible_error("memory: the model, its gradients and the optimizer's state do not fit the device");
  } catch (const std::exception& fault) {
    return base::input_error("the model cannot be trained: " + models::torch_reason(fault), {.field = "model"});
  }
}

}  // namespace yoke::profiler
