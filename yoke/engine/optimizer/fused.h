// The optimizers on CPU memory: one pass over a bucket's weights, gradient and state (two for LAMB, which needs norms
// before it can move), in parallel over blocks of a fixed size.
#pragma once

#include <memory>
#include <vector>

#include "yoke/engine/optimizer/kernels.h"
#include "yoke/engine/optimizer/optimizer.h"

namespace yoke::engine {

/// Precondition: the buckets are valid (see make_optimizer) and on the CPU. `kernels` must outlive the optimizer.
std::unique_ptr<Optimizer> make_fused_optimizer(const plan::OptimizerSpec& spec, std::vector<FlatBucket> buckets,
                                                const Kernels& kernels);

/// squared_norm() on the CPU.
double fused_squared_norm(const torch::Tensor& values, const Kernels& kernels);

}  // namespace yoke::engine
