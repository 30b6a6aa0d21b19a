// Optimizers on flat buckets: one fused pass over weights, gradient and state of a bucket. The gradient is a sum over
// workers; `scale` turns it into the mean in the same pass. A bucket is updated by itself, so one whose gradient has
// arrived need not wait for the others (LAMB included: its norms are those of single parameters).
//
// Results do not depend on the number of threads: every element is computed by the same operations, and norms are added
// in a fixed order.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "yoke/plan/job.h"

namespace yoke::engine {

/// A parameter within its bucket, in elements. Between segments lie gaps, whose weights and gradients are zero.
struct Segment {
  std::string name;  // full name of the parameter
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool decay = true;  // weight decay applies to it
};

/// One bucket of f32 weights and their gradients: flat tensors of equal length on one device.
struct FlatBucket {
  torch::Tensor weights;
  torch::Tensor gradients;
  std::vector<Segment> segments;  // ascending
};

struct Update {
  double lr = 0;
  double scale = 1;       // the gradient is scale x what is in the bucket
  double clip_value = 0;  // then clamped to +-clip_value; 0: not
  std::int64_t step = 1;  // counts updates of this bucket from 1: Adam's bias correction
};

/// Buckets may be updated in any order and from any thread, each by one at a time.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void update(std::size_t bucket, const Update& update) = 0;
  /// The state tensors of a bucket by name (`momentum`, `exp_avg`, ...): flat, as long as the bucket.
  virtual std::vector<std::pair<std::string, torch::Tensor>> state(std::size_t bucket) const = 0;
};

/// State tensors start at zero and are on the buckets' device. `buckets` share storage with the caller's tensors.
std::unique_ptr<Optimizer> make_optimizer(const plan::OptimizerSpec& spec, std::vector<FlatBucket> buckets);

/// Whether weight decay applies: not to biases and to the weights of norms, unless the job wants it.
bool decays(const plan::OptimizerSpec& spec, std::string_view parameter, std::int64_t dimensions);

/// Sum of squares of a bucket's gradient (gaps are zero), in a fixed order: for clipping by the global norm.
double squared_norm(const torch::Tensor& gradients);

}  // namespace yoke::engine
