#include "yoke/engine/optimizer/kernels.h"

#include <array>
#include <cmath>

#define YOKE_INLINE inline __attribute__((always_inline))

namespace yoke::engine {
namespace {

constexpr std::int64_t kLanes = 16;
using Lanes = std::array<double, kLanes>;

/// NaN stays NaN, so that a broken gradient is seen.
YOKE_INLINE float gradient_of(float sum, const GradientStep& step) {
  const float scaled = step.scale * sum;
  const float low = scaled < -step.limit ? -step.limit : scaled;
  return low > step.limit ? step.limit : low;
}

YOKE_INLINE void sgd_body(const ElementBlock& block, const SgdStep& given) {
  const SgdStep step = given;
  float* __restrict weights = block.weights;
  const float* __restrict gradients = block.gradients;
  for (std::int64_t i = 0; i < block.count; ++i) {
    const float gradient = std::fma(weights[i], step.decay, gradient_of(gradients[i], step.gradient));
    weights[i] = std::fma(gradient, -step.lr, weights[i]);
  }
}

template <bool kNesterov>
YOKE_INLINE void sgd_momentum_loop(const ElementBlock& block, const SgdStep& given) {
  const SgdStep step = given;
  float* __restrict weights = block.weights;
  const float* __restrict gradients = block.gradients;
  float* __restrict momenta = block.first;
  for (std::int64_t i = 0; i < block.count; ++i) {
    const float gradient = std::fma(weights[i], step.decay, gradient_of(gradients[i], step.gradient));
    const float momentum = momenta[i] * step.momentum + gradient;
    const float direction = kNesterov ? std::fma(momentum, step.momentum, gradient) : momentum;
    momenta[i] = momentum;
    weights[i] = std::fma(direction, -step.lr, weights[i]);
  }
}

YOKE_INLINE void sgd_momentum_body(const ElementBlock& block, const SgdStep& step) {
  if (step.nesterov) {
    sgd_momentum_loop<true>(block, step);
  } else {
    sgd_momentum_loop<false>(block, step);
  }
}

YOKE_INLINE void update_moments(float gradient, const MomentStep& step, float& first, float& second) {
  first = std::fma(gradient, step.rest1, first * step.beta1);
  second = std::fma(step.rest2 * gradient, gradient, second * step.beta2);
}

YOKE_INLINE float spread_of(float second, const MomentStep& step) {
  return std::sqrt(second) / step.root2 + step.eps;
}

YOKE_INLINE void adam_body(const ElementBlock& block, const AdamStep& given) {
  const AdamStep step = given;
  float* __restrict weights = block.weights;
  const float* __restrict gradients = block.gradients;
  float* __restrict firsts = block.first;
  float* __restrict seconds = block.second;
  for (std::int64_t i = 0; i < block.count; ++i) {
    const float gradient = std::fma(weights[i], step.decay, gradient_of(gradients[i], step.gradient));
    float first = firsts[i];
    float second = seconds[i];
    update_moments(gradient, step.moments, first, second);
    firsts[i] = first;
    seconds[i] = second;
    weights[i] = weights[i] * step.shrink + (-step.size * first) / spread_of(second, step.moments);
  }
}

YOKE_INLINE float lamb_direction(float weight, float first, float second, const LambStep& step) {
  return std::fma(weight, step.decay, (first / step.correction1) / spread_of(second, step.moments));
}

YOKE_INLINE double sum_of(const Lanes& lanes) {
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

YOKE_INLINE LambSquares lamb_moments_body(const ElementBlock& block, const LambStep& given) {
  const LambStep step = given;
  const float* __restrict weights = block.weights;
  const float* __restrict gradients = block.gradients;
  float* __restrict firsts = block.first;
  float* __restrict seconds = block.second;
  for (std::int64_t i = 0; i < block.count; ++i) {
    float first = firsts[i];
    float second = seconds[i];
    update_moments(gradient_of(gradients[i], step.gradient), step.moments, first, second);
    firsts[i] = first;
    seconds[i] = second;
  }
  Lanes of_weights{};
  Lanes of_direction{};
  // Directions are made for a row of lanes first: the loop over them is a vector's work.
  std::array<float, kLanes> row;
  for (std::int64_t begin = 0; begin < block.count; begin += kLanes) {
    const std::int64_t width = block.count - begin < kLanes ? block.count - begin : kLanes;
    for (std::int64_t lane = 0; lane < width; ++lane) {
      const std::int64_t i = begin + lane;
      row[lane] = lamb_direction(weights[i], firsts[i], seconds[i], step);
    }
    for (std::int64_t lane = 0; lane < width; ++lane) {
      const double weight = weights[begin + lane];
      const double direction = row[lane];
      of_weights[lane] += weight * weight;
      of_direction[lane] += direction * direction;
    }
  }
  return {.weights = sum_of(of_weights), .direction = sum_of(of_direction)};
}

YOKE_INLINE void lamb_move_body(const ElementBlock& block, const LambStep& given, float rate) {
  const LambStep step = given;
  float* __restrict weights = block.weights;
  const float* __restrict firsts = block.first;
  const float* __restrict seconds = block.second;
  for (std::int64_t i = 0; i < block.count; ++i) {
    const float direction = lamb_direction(weights[i], firsts[i], seconds[i], step);
    weights[i] = std::fma(direction, -rate, weights[i]);
  }
}

YOKE_INLINE double squares_body(const float* __restrict values, std::int64_t count) {
  Lanes lanes{};
  std::int64_t begin = 0;
  for (; begin + kLanes <= count; begin += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[begin + lane];
      lanes[lane] += value * value;
    }
  }
  for (std::int64_t lane = 0; begin + lane < count; ++lane) {
    const double value = values[begin + lane];
    lanes[lane] += value * value;
  }
  return sum_of(lanes);
}

// The same bodies, compiled once for each instruction set. Chosen by a plain branch: the resolvers of `target_clones`
// run before sanitizers are ready.
#define YOKE_KERNELS(set, attribute)                                                            \
  attribute void sgd_##set(const ElementBlock& block, const SgdStep& step) {                    \
    sgd_body(block, step);                                                                      \
  }                                                                                             \
  attribute void sgd_momentum_##set(const ElementBlock& block, const SgdStep& step) {           \
    sgd_momentum_body(block, step);                                                             \
  }                                                                                             \
  attribute void adam_##set(const ElementBlock& block, const AdamStep& step) {                  \
    adam_body(block, step);                                                                     \
  }                                                                                             \
  attribute LambSquares lamb_moments_##set(const ElementBlock& block, const LambStep& step) {   \
    return lamb_moments_body(block, step);                                                      \
  }                                                                                             \
  attribute void lamb_move_##set(const ElementBlock& block, const LambStep& step, float rate) { \
    lamb_move_body(block, step, rate);                                                          \
  }                                                                                             \
  attribute double squares_##set(const float* values, std::int64_t count) {                     \
    return squares_body(values, count);                                                         \
  }                                                                                             \
  constexpr Kernels kKernels_##set{.sgd = sgd_##set,                                            \
                                   .sgd_momentum = sgd_momentum_##set,                          \
                                   .adam = adam_##set,                                          \
                                   .lamb_moments = lamb_moments_##set,                          \
                                   .lamb_move = lamb_move_##set,                                \
                                   .squares = squares_##set};

YOKE_KERNELS(baseline, )
#if defined(__x86_64__)
YOKE_KERNELS(avx2, __attribute__((target("avx2,fma"))))
#endif

}  // namespace

bool has(InstructionSet set) {
  if (set == InstructionSet::kBaseline) return true;
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#else
  return false;
#endif
}

const Kernels& kernels(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx2) return kKernels_avx2;
#endif
  (void)set;
  return kKernels_baseline;
}

const Kernels& best_kernels() {
  return kernels(has(InstructionSet::kAvx2) ? InstructionSet::kAvx2 : InstructionSet::kBaseline);
}

}  // namespace yoke::engine
