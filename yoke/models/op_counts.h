// What a model computes and moves, counted op by op: the figures that a time on hardware that is not here is estimated
// from. Free of torch, so that `cli` can use it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "yoke/base/result.h"

namespace yoke::models {

/// A number that grows with the batch: fixed + per_sample x samples.
struct PerBatch {
  double fixed = 0;
  double per_sample = 0;

  double of(std::int64_t samples) const { return fixed + per_sample * static_cast<double>(samples); }
};

/// How the arithmetic of an op runs on a device.
enum class OpKind {
  kMoving,       // elementwise, pooling, normalisation: memory is the limit
  kMatrix,       // matrix products, and convolutions that become such
  kConvolution3  // 3x3 with stride 1: libraries have an algorithm with fewer multiplications
};

/// One op, about one kernel, with f32 data.
struct OpCount {
  std::string name;  // e.g. aten::convolution
  OpKind kind = OpKind::kMoving;
  int kernels = 1;
  PerBatch flops;  // a multiplication and an addition are two
  PerBatch bytes;  // read and written
};

struct BlockCount {
  std::string name;
  std::vector<OpCount> forward;
  std::vector<OpCount> backward;
  PerBatch output_bytes;                // what the next block gets
  PerBatch activation_bytes;            // what the backward pass needs of the forward pass
  std::vector<double> parameter_bytes;  // of each parameter, in the order registered
};

struct ModelCount {
  std::string model;
  PerBatch input_bytes;
  std::vector<BlockCount> blocks;
};

struct CountRequest {
  std::string model;
  std::int64_t classes = 10;
  std::vector<std::int64_t> input_shape;  // of one sample; empty: the model's own
  std::string path;                       // of a TorchScript file
};

/// Builds the model and runs forward and backward passes of two small batches on the CPU, some seconds for large
/// models. Not for two threads at once (see Network). Input error as make_model(), or where libtorch refuses the shape.
base::Result<ModelCount> count_ops(const CountRequest& request);

}  // namespace yoke::models
