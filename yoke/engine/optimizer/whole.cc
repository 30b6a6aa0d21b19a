#include "yoke/engine/optimizer/whole.h"

#include <cmath>

#include "yoke/base/error.h"

namespace yoke::engine {
namespace {

/// A scalar that stays on the device.
torch::Tensor two_norm(const torch::Tensor& values) {
  return torch::linalg_vector_norm(values, 2, at::OptionalIntArrayRef(), false, torch::kFloat64);
}

/// What all of them share: the buckets with a mask of decay, and their state.
class WholeOptimizer : public Optimizer {
 public:
  WholeOptimizer(const plan::OptimizerSpec& spec, std::vector<FlatBucket> buckets) : spec_(spec) {
    const torch::NoGradGuard no_graph;
    for (auto& bucket : buckets) {
      Held held{.bucket = std::move(bucket)};
      if (spec_.weight_decay != 0) {
        held.decay = torch::zeros_like(held.bucket.weights);
        for (const auto& segment : held.bucket.segments) {
          if (segment.decay) held.decay.narrow(0, segment.begin, segment.count).fill_(spec_.weight_decay);
        }
      }
      held.state = initial_state(spec_, held.bucket);
      held_.push_back(std::move(held));
    }
  }

  void update(std::size_t bucket, const Update& update) final {
    base::require(update.step >= 1, "updates are counted from 1");
    const torch::NoGradGuard no_graph;
    Held& held = held_.at(bucket);
    auto gradient = held.bucket.gradients * update.scale;
    if (update.clip_value > 0) gradient.clamp_(-update.clip_value, update.clip_value);
    apply(held, gradient, update);
  }

  NamedState state(std::size_t bucket) const override { return held_.at(bucket).state; }

 protected:
  struct Held {
    FlatBucket bucket;
    torch::Tensor decay;  // of each element; undefined: none decays
    NamedState state;
  };

  /// `gradient` is a tensor of its own: to be changed at will.
  virtual void apply(Held& held, torch::Tensor gradient, const Update& update) = 0;

  const plan::OptimizerSpec& spec() const { return spec_; }

  void update_moments(Held& held, const torch::Tensor& gradient) const {
    held.state[0].second.mul_(spec_.beta1).add_(gradient, 1 - spec_.beta1);
    held.state[1].second.mul_(spec_.beta2).addcmul_(gradient, gradient, 1 - spec_.beta2);
  }

  /// The root of the second moment, corrected, plus eps.
  torch::Tensor spread(const Held& held, const Update& update) const {
    const double correction = 1 - std::pow(spec_.beta2, static_cast<double>(update.step));
    return held.state[1].second.sqrt().div_(std::sqrt(correction)).add_(spec_.eps);
  }

  double first_correction(const Update& update) const {
    return 1 - std::pow(spec_.beta1, static_cast<double>(update.step));
  }

 private:
  plan::OptimizerSpec spec_;
  std::vector<Held> held_;
};

class WholeSgd final : public WholeOptimizer {
 public:
  using WholeOptimizer::WholeOptimizer;

 private:
  void apply(Held& held, torch::Tensor gradient, const Update& update) override {
    auto& weights = held.bucket.weights;
    if (held.decay.defined()) gradient.addcmul_(held.decay, weights);
    if (spec().momentum == 0) {
      weights.add_(gradient, -update.lr);
      return;
    }
    auto& momentum = held.state[0].second;
    momentum.mul_(spec().momentum).add_(gradient);
    weights.add_(spec().nesterov ? gradient.add_(momentum, spec().momentum) : momentum, -update.lr);
  }
};

class WholeAdam final : public WholeOptimizer {
 public:
  using WholeOptimizer::WholeOptimizer;

 private:
  void apply(Held& held, torch::Tensor gradient, const Update& update) override {
    auto& weights = held.bucket.weights;
    if (held.decay.defined()) {
      if (spec().name == plan::OptimizerName::kAdamW) {
        weights.addcmul_(held.decay, weights, -update.lr);
      } else {
        gradient.addcmul_(held.decay, weights);
      }
    }
    update_moments(held, gradient);
    weights.addcdiv_(held.state[0].second, spread(held, update), -update.lr / first_correction(update));
  }
};

class WholeLamb final : public WholeOptimizer {
 public:
  using WholeOptimizer::WholeOptimizer;

 private:
  void apply(Held& held, torch::Tensor gradient, const Update& update) override {
    auto& weights = held.bucket.weights;
    update_moments(held, gradient);
    auto direction = held.state[0].second.div(first_correction(update)).div_(spread(held, update));
    if (held.decay.defined()) direction.addcmul_(held.decay, weights);
    for (const auto& segment : held.bucket.segments) {
      if (!segment.decay || segment.count == 0) continue;
      auto own = direction.narrow(0, segment.begin, segment.count);
      const auto of_weights = two_norm(weights.narrow(0, segment.begin, segment.count));
      const auto of_direction = two_norm(own);
      own.mul_(torch::where(of_weights.mul(of_direction) > 0, of_weights / of_direction, torch::ones_like(of_weights))
                   .to(own.scalar_type()));
    }
    weights.add_(direction, -update.lr);
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_whole_optimizer(const plan::OptimizerSpec& spec, std::vector<FlatBucket> buckets) {
  switch (spec.name) {
    case plan::OptimizerName::kSgd:
      return std::make_unique<WholeSgd>(spec, std::move(buckets));
    case plan::OptimizerName::kAdam:
    case plan::OptimizerName::kAdamW:
      return std::make_unique<WholeAdam>(spec, std::move(buckets));
    case plan::OptimizerName::kLamb:
      return std::make_unique<WholeLamb>(spec, std::move(buckets));
  }
  throw base::Failure({.kind = base::ErrorKind::kInternal, .message = "an optimizer of no known name"});
}

double whole_squared_norm(const torch::Tensor& values) {
  const double root = two_norm(values).item<double>();
  return root * root;
}

}  // namespace yoke::engine
