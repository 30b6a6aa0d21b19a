// What two gradients of the same step say about the batch, from scalars only: whoever holds the gradients sums the
// products once and passes the sums on.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

namespace yoke::adapt {

/// Cosine of the angle between gradients a and b, from a.b, |a|^2 and |b|^2; within [-1, 1]. Nothing when a gradient
/// is zero or a sum is not finite: the angle is then undefined.
inline std::optional<double> cosine_similarity(double dot, double squared_norm_a, double squared_norm_b) {
  if (!std::isfinite(dot) || !std::isfinite(squared_norm_a) || !std::isfinite(squared_norm_b)) return std::nullopt;
  if (squared_norm_a <= 0 || squared_norm_b <= 0) return std::nullopt;
  // Two roots rather than the root of a product, which could overflow.
  return std::clamp(dot / std::sqrt(squared_norm_a) / std::sqrt(squared_norm_b), -1.0, 1.0);
}

/// A gradient averaged over `batch` samples.
struct GradientNorm {
  double batch = 0;
  double squared_norm = 0;
};

/// The simple noise scale of McCandlish et al. 2018 (An Empirical Model of Large-Batch Training, appendix A.1): the
/// batch at which the gradient's noise equals its size; far below it a larger batch pays, far above it does not.
/// From the mean gradient over a small and over a big batch:
///   |G|^2 = (big.batch * |big|^2 - small.batch * |small|^2) / (big.batch - small.batch)
///   noise = (|small|^2 - |big|^2) / (1/small.batch - 1/big.batch);  scale = noise / |G|^2
/// Nothing when the estimate of |G|^2 is not positive, the noise is negative (both happen by chance near zero), the
/// batches are not 0 < small < big, or a number is not finite. One estimate is noisy: average several.
inline std::optional<double> gradient_noise_scale(const GradientNorm& small, const GradientNorm& big) {
  if (!(small.batch > 0 && small.batch < big.batch)) return std::nullopt;
  const double signal = (big.batch * big.squared_norm - small.batch * small.squared_norm) / (big.batch - small.batch);
  const double noise = (small.squared_norm - big.squared_norm) / (1 / small.batch - 1 / big.batch);
  const double scale = noise / signal;
  if (!(signal > 0) || !(noise >= 0) || !std::isfinite(scale)) return std::nullopt;
  return scale;
}

}  // namespace yoke::adapt
