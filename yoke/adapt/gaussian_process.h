// Gaussian process regression on a line with the kernel constant x periodic:
//
//   k(a, b) = constant * exp(-2 sin^2(pi |a - b| / period) / length_scale^2)
//
// Values are normalised to mean 0 and population standard deviation 1 (1 if that is 0) and taken as exact up to
// `noise` on the kernel's diagonal. Near-singular kernels get as much more noise as makes the factorisation succeed,
// so that every answer is finite. Plain values: const members are safe from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "yoke/adapt/minimize.h"
#include "yoke/base/result.h"

namespace yoke::adapt {

struct PeriodicKernel {
  double constant = 1;
  double length_scale = 1;
  double period = 3;

  double operator()(double a, double b) const;
  bool operator==(const PeriodicKernel&) const = default;
};

/// Where maximum likelihood may look. The defaults are JABAS's.
struct KernelBounds {
  Interval constant{1, 1e6};
  Interval length_scale{1e-5, 1e5};
  Interval period{0.01, 10};
};

/// `starts` kernels to search from: the first is the default kernel (moved into the bounds), the others are drawn
/// log-uniformly within the bounds. Same seed, same kernels, on every platform.
std::vector<PeriodicKernel> restart_kernels(const KernelBounds& bounds, int starts, std::uint64_t seed);

class GaussianProcess {
 public:
  /// The least noise, in units of the normalised values' variance.
  static constexpr double kNoise = 1e-10;

  /// Conditions the process on the points at fixed hyper-parameters. Input error if there is no point, the lengths
  /// differ, a number is not finite, or a hyper-parameter is not positive.
  static base::Result<GaussianProcess> condition(std::span<const double> x, std::span<const double> y,
                                                 const PeriodicKernel& kernel);
  /// The most likely kernel within the bounds, among the local optima reached from `starts` (at least one). The order
  /// of the starts does not matter: equal likelihoods go to the smallest (constant, length_scale, period).
  static base::Result<GaussianProcess> fit(std::span<const double> x, std::span<const double> y,
                                           const KernelBounds& bounds, std::span<const PeriodicKernel> starts);

  struct Posterior {
    double mean = 0;
    double deviation = 0;
  };
  /// At a finite place.
  Posterior predict(double x) const;

  const PeriodicKernel& kernel() const { return kernel_; }
  double log_marginal_likelihood() const { return log_likelihood_; }
  /// Its derivatives by log constant, log length_scale and log period.
  std::array<double, 3> likelihood_gradient() const;
  /// What was put on the diagonal: kNoise, or more where the kernel is near singular.
  double noise() const { return noise_; }

 private:
  GaussianProcess() = default;
  void factorize();

  PeriodicKernel kernel_;
  std::vector<double> x_;
  std::vector<double> y_;  // normalised
  double y_mean_ = 0;
  double y_scale_ = 1;
  double noise_ = kNoise;
  double log_likelihood_ = 0;
  std::vector<double> factor_;   // Cholesky factor of the noisy kernel matrix, column by column
  std::vector<double> weights_;  // kernel matrix^-1 y
};

}  // namespace yoke::adapt
