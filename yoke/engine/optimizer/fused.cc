#include "yoke/engine/optimizer/fused.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "yoke/base/error.h"

namespace yoke::engine {
namespace {

/// Elements of a block. Fixed, because norms are sums of the sums of blocks: the order must not follow the threads.
constexpr std::int64_t kBlock = 4096;
/// Blocks that are worth another thread.
constexpr std::int64_t kGrain = 8;

/// A part of one segment; all its elements have the segment's decay.
struct Part {
  std::size_t segment = 0;
  std::int64_t begin = 0;  // in the bucket
  std::int64_t count = 0;
};

std::vector<Part> parts_of(const std::vector<Segment>& segments) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto& segment = segments[i];
    for (std::int64_t at = 0; at < segment.count; at += kBlock) {
      parts.push_back({.segment = i, .begin = segment.begin + at, .count = std::min(kBlock, segment.count - at)});
    }
  }
  return parts;
}

GradientStep gradient_step(const Update& update) {
  return {
      .scale = static_cast<float>(update.scale),
      .limit = update.clip_value > 0 ? static_cast<float>(update.clip_value) : std::numeric_limits<float>::infinity()};
}

double first_correction(const plan::OptimizerSpec& spec, const Update& update) {
  return 1 - std::pow(spec.beta1, static_cast<double>(update.step));
}

MomentStep moment_step(const plan::OptimizerSpec& spec, const Update& update) {
  base::require(update.step >= 1, "updates are counted from 1");
  return {.beta1 = static_cast<float>(spec.beta1),
          .rest1 = static_cast<float>(1 - spec.beta1),
          .beta2 = static_cast<float>(spec.beta2),
          .rest2 = static_cast<float>(1 - spec.beta2),
          .root2 = static_cast<float>(std::sqrt(1 - std::pow(spec.beta2, static_cast<double>(update.step)))),
          .eps = static_cast<float>(spec.eps)};
}

/// What all of them share: the buckets cut into parts, and their state.
class FusedOptimizer : public Optimizer {
 public:
  FusedOptimizer(const plan::OptimizerSpec& spec, std::vector<FlatBucket> buckets, const Kernels& kernels)
      : spec_(spec), kernels_(kernels) {
    for (auto& bucket : buckets) {
      Held held{.bucket = std::move(bucket)};
      held.parts = parts_of(held.bucket.segments);
      held.state = initial_state(spec_, held.bucket);
      held_.push_back(std::move(held));
    }
  }

  NamedState state(std::size_t bucket) const override { return held_.at(bucket).state; }

 protected:
  struct Held {
    FlatBucket bucket;
    std::vector<Part> parts;
    NamedState state;
  };

  const plan::OptimizerSpec& spec() const { return spec_; }
  const Kernels& kernels() const { return kernels_; }
  Held& held(std::size_t bucket) { return held_.at(bucket); }
  double decay_of(const Segment& segment) const { return segment.decay ? spec_.weight_decay : 0; }

  /// Calls work(index of the part, its segment, its elements) for every part of a bucket, in parallel.
  template <typename Work>
  static void for_each_part(Held& held, const Work& work) {
    float* const weights = held.bucket.weights.data_ptr<float>();
    const float* const gradients = held.bucket.gradients.data_ptr<float>();
    float* const first = held.state.empty() ? nullptr : held.state[0].second.data_ptr<float>();
    float* const second = held.state.size() < 2 ? nullptr : held.state[1].second.data_ptr<float>();
    at::parallel_for(0, static_cast<std::int64_t>(held.parts.size()), kGrain, [&](std::int64_t from, std::int64_t to) {
      for (auto index = static_cast<std::size_t>(from); index < static_cast<std::size_t>(to); ++index) {
        const Part& part = held.parts[index];
        work(index, held.bucket.segments[part.segment],
             ElementBlock{.weights = weights + part.begin,
                          .gradients = gradients + part.begin,
                          .first = first == nullptr ? nullptr : first + part.begin,
                          .second = second == nullptr ? nullptr : second + part.begin,
                          .count = part.count});
      }
    });
  }

 private:
  plan::OptimizerSpec spec_;
  const Kernels& kernels_;
  std::vector<Held> held_;
};

class FusedSgd final : public FusedOptimizer {
 public:
  using FusedOptimizer::FusedOptimizer;

  void update(std::size_t bucket, const Update& update) override {
    const SgdStep shared{.gradient = gradient_step(update),
                         .momentum = static_cast<float>(spec().momentum),
                         .nesterov = spec().nesterov,
                         .lr = static_cast<float>(update.lr)};
    const auto loop = spec().momentum == 0 ? kernels().sgd : kernels().sgd_momentum;
    for_each_part(held(bucket), [&](std::size_t, const Segment& segment, const ElementBlock& block) {
      SgdStep step = shared;
      step.decay = static_cast<float>(decay_of(segment));
      loop(block, step);
    });
  }
};

/// Adam and AdamW.
class FusedAdam final : public FusedOptimizer {
 public:
  using FusedOptimizer::FusedOptimizer;

  void update(std::size_t bucket, const Update& update) override {
    const AdamStep shared{.gradient = gradient_step(update),
                          .moments = moment_step(spec(), update),
                          .size = static_cast<float>(update.lr / first_correction(spec(), update))};
    const bool decoupled = spec().name == plan::OptimizerName::kAdamW;
    for_each_part(held(bucket), [&](std::size_t, const Segment& segment, const ElementBlock& block) {
      AdamStep step = shared;
      if (decoupled) {
        step.shrink = static_cast<float>(1 - update.lr * decay_of(segment));
      } else {
        step.decay = static_cast<float>(decay_of(segment));
      }
      kernels().adam(block, step);
    });
  }
};

class FusedLamb final : public FusedOptimizer {
 public:
  using FusedOptimizer::FusedOptimizer;

  void update(std::size_t bucket, const Update& update) override {
    const LambStep shared{.gradient = gradient_step(update),
                          .moments = moment_step(spec(), update),
                          .correction1 = static_cast<float>(first_correction(spec(), update))};
    Held& held = this->held(bucket);
    const auto step_of = [&](const Segment& segment) {
      LambStep step = shared;
      step.decay = static_cast<float>(decay_of(segment));
      return step;
    };
    std::vector<LambSquares> squares(held.parts.size());
    for_each_part(held, [&](std::size_t index, const Segment& segment, const ElementBlock& block) {
      squares[index] = kernels().lamb_moments(block, step_of(segment));
    });
    const auto rates = rates_of(held, squares, update.lr);
    for_each_part(held, [&](std::size_t index, const Segment& segment, const ElementBlock& block) {
      kernels().lamb_move(block, step_of(segment), rates[held.parts[index].segment]);
    });
  }

 private:
  /// The learning rate of each segment: times its trust ratio.
  static std::vector<float> rates_of(const Held& held, const std::vector<LambSquares>& squares, double lr) {
    std::vector<LambSquares> sums(held.bucket.segments.size());
    for (std::size_t index = 0; index < squares.size(); ++index) {
      LambSquares& sum = sums[held.parts[index].segment];
      sum.weights += squares[index].weights;
      sum.direction += squares[index].direction;
    }
    std::vector<float> rates;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const bool adapts = held.bucket.segments[i].decay && sums[i].weights > 0 && sums[i].direction > 0;
      rates.push_back(static_cast<float>(adapts ? lr * std::sqrt(sums[i].weights / sums[i].direction) : lr));
    }
    return rates;
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_fused_optimizer(const plan::OptimizerSpec& spec, std::vector<FlatBucket> buckets,
                                                const Kernels& kernels) {
  switch (spec.name) {
    case plan::OptimizerName::kSgd:
      return std::make_unique<FusedSgd>(spec, std::move(buckets), kernels);
    case plan::OptimizerName::kAdam:
    case plan::OptimizerName::kAdamW:
      return std::make_unique<FusedAdam>(spec, std::move(buckets), kernels);
    case plan::OptimizerName::kLamb:
      return std::make_unique<FusedLamb>(spec, std::move(buckets), kernels);
  }
  throw base::Failure({.kind = base::ErrorKind::kInternal, .message = "an optimizer of no known name"});
}

double fused_squared_norm(const torch::Tensor& values, const Kernels& kernels) {
  const std::int64_t count = values.numel();
  const float* const data = values.data_ptr<float>();
  std::vector<double> sums(static_cast<std::size_t>((count + kBlock - 1) / kBlock));
  at::parallel_for(0, static_cast<std::int64_t>(sums.size()), kGrain, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t block = from; block < to; ++block) {
      const std::int64_t begin = block * kBlock;
      sums[static_cast<std::size_t>(block)] = kernels.squares(data + begin, std::min(kBlock, count - begin));
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace yoke::engine
