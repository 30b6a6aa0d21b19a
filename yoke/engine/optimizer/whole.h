// The optimizers by torch's own operations on whole buckets: for devices other than the CPU. The formulas are those of
// the fused loops; results may differ by rounding. A mask tells where weight decay applies.
#pragma once

#include <memory>
#include <vector>

#include "yoke/engine/optimizer/optimizer.h"

namespace yoke::engine {

/// Precondition: the buckets are valid (see make_optimizer), on any device.
std::unique_ptr<Optimizer> make_whole_optimizer(const plan::OptimizerSpec& spec, std::vector<FlatBucket> buckets);

/// squared_norm() on any device.
double whole_squared_norm(const torch::Tensor& values);

}  // namespace yoke::engine
