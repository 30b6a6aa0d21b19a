// Optimizers on flat buckets: one fused pass over weights, gradient and state of a bucket. The gradient is a sum over
// workers; `scale` turns it into the mean in the same pass. A bucket is updated by itself, so one whose gradient has
// arrived need not wait for the others (LAMB included: its norms are those of single parameters).
//
// Results do not depend on the number of threads: every element is computed by the same operations, and norms are added
// in a fixed order. On the CPU that holds for the instruction set too (kernels.h); other devices use torch's
// operations.
//
// The formulas are torch.optim's: SGD (dampening 0; the momentum of the first update is the gradient), Adam (weight
// decay is added to the gradient) and AdamW (weights shrink by lr x decay first). LAMB is the paper's: Adam's direction
// with bias correction, plus decay x weight, times the trust ratio |weights| / |direction| of each parameter (1 if a
// norm is 0), with no limits on the ratio. Parameters without decay have ratio 1, as in the authors' own program.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
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

/// State tensors by name, in a fixed order.
using NamedState = std::vector<std::pair<std::string, torch::Tensor>>;

/// Buckets may be updated in any order and from any thread, each by one at a time.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void update(std::size_t bucket, const Update& update) = 0;
  /// The state tensors of a bucket: flat, as long as the bucket. They share storage with the optimizer's, so that a
  /// checkpoint is loaded by copying into them. `momentum` of sgd (nothing when the momentum is 0), `exp_avg` and
  /// `exp_avg_sq` of the others.
  virtual NamedState state(std::size_t bucket) const = 0;
};

/// State tensors start at zero and are on the buckets' device. `buckets` share storage with the caller's tensors.
/// Precondition: all buckets are on the same kind of device; tensors are flat, dense f32 of equal length; segments lie
/// in them in ascending order and do not overlap.
std::unique_ptr<Optimizer> make_optimizer(const plan::OptimizerSpec& spec, std::vector<FlatBucket> buckets);

/// What state() begins with: zeros.
NamedState initial_state(const plan::OptimizerSpec& spec, const FlatBucket& bucket);

/// Whether weight decay applies: not to biases and to the weights of norms, unless the job wants it. Those are all
/// parameters of at most one dimension, and what is called `bias` whatever its shape.
bool decays(const plan::OptimizerSpec& spec, std::string_view parameter, std::int64_t dimensions);

/// Sum of squares of a bucket's gradient (gaps are zero), in a fixed order: for clipping by the global norm.
double squared_norm(const torch::Tensor& gradients);

/// The `scale` of an update that clips by the global norm, as torch's clip_grad_norm_ does: `scale` itself, less where
/// the norm of the scaled gradient is above `max_norm` (0: never). `squared` is the sum of squared_norm() over all
/// buckets. A norm that is NaN gives NaN: broken gradients are not hidden.
double clipped_scale(double scale, double squared, double max_norm);

}  // namespace yoke::engine
