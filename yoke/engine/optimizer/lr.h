// The learning rate as a pure function of where training is.
#pragma once

#include <cstdint>

#include "yoke/plan/job.h"

namespace yoke::engine {

/// Where training is, as learning-rate policies see it.
struct LrPosition {
  std::int64_t step = 0;  // from 0
  double epoch = 0;       // with its fraction: 1.5 is the middle of the second epoch
  double epochs = 1;      // of the whole training
};

/// Epoch-wise policies (step, multistep, exponential) change between epochs, cosine and polynomial with every step.
/// During the warm-up the rate grows linearly from `warmup_from` times the policy's rate to that rate.
double learning_rate(const plan::LrSpec& spec, double base_lr, const LrPosition& position);

}  // namespace yoke::engine
