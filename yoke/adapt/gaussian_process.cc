#include "yoke/adapt/gaussian_process.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

#include "yoke/base/error.h"

namespace yoke::adapt {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

/// Numbers beyond this, and parameters below its inverse, are no data of anyone's: they are refused, so that no square
/// or quotient of them leaves a double's range.
constexpr double kLargest = 1e50;
/// Tenfold steps. The first noise is at the level of the matrix's rounding, 16 digits below its norm.
constexpr int kMaxNoiseSteps = 20;

Eigen::Map<const Vector> view(const std::vector<double>& values) {
  return {values.data(), static_cast<Eigen::Index>(values.size())};
}

Eigen::Map<const Matrix> square_view(const std::vector<double>& values, std::size_t side) {
  const auto n = static_cast<Eigen::Index>(side);
  return {values.data(), n, n};
}

Matrix kernel_matrix(const PeriodicKernel& kernel, const std::vector<double>& x) {
  const auto n = static_cast<Eigen::Index>(x.size());
  Matrix matrix(n, n);
  for (Eigen::Index column = 0; column < n; ++column) {
    matrix(column, column) = kernel.constant;
    for (Eigen::Index row = column + 1; row < n; ++row) {
      const double value = kernel(x[static_cast<std::size_t>(row)], x[static_cast<std::size_t>(column)]);
      matrix(row, column) = value;
      matrix(column, row) = value;
    }
  }
  return matrix;
}

bool all_usable(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return std::abs(value) <= kLargest; });
}

base::Status check_points(std::span<const double> x, std::span<const double> y) {
  if (x.empty() || x.size() != y.size()) {
    return base::input_error(
        fmt::format("a Gaussian process needs as many values as places and at least one; found {} places and {} values",
                    x.size(), y.size()));
  }
  if (!all_usable(x) || !all_usable(y)) {
    return base::input_error(fmt::format(
        "a Gaussian process needs finite places and values, at most {} in size; leave out the points that are not",
        kLargest));
  }
  return {};
}

base::Status check_kernel(const PeriodicKernel& kernel) {
  for (const double parameter : {kernel.constant, kernel.length_scale, kernel.period}) {
    if (!(parameter >= 1 / kLargest && parameter <= kLargest)) {
      return base::input_error(
          fmt::format("the kernel's parameters must be from {} to {}; found constant {}, length scale {}, period {}",
                      1 / kLargest, kLargest, kernel.constant, kernel.length_scale, kernel.period));
    }
  }
  return {};
}

std::array<Interval, 3> log_box(const KernelBounds& bounds) {
  const auto log_of = [](const Interval& bound) { return Interval{std::log(bound.least), std::log(bound.most)}; };
  return {log_of(bounds.constant), log_of(bounds.length_scale), log_of(bounds.period)};
}

std::array<double, 3> log_parameters(const PeriodicKernel& kernel) {
  return {std::log(kernel.constant), std::log(kernel.length_scale), std::log(kernel.period)};
}

PeriodicKernel kernel_at(std::span<const double> log_parameters) {
  return {.constant = std::exp(log_parameters[0]),
          .length_scale = std::exp(log_parameters[1]),
          .period = std::exp(log_parameters[2])};
}

/// Uniform in [0, 1) from the generator's bits: the standard distributions differ between libraries.
double uniform(std::mt19937_64& generator) {
  return static_cast<double>(generator() >> 11) * 0x1p-53;
}

}  // namespace

double PeriodicKernel::operator()(double a, double b) const {
  const double wave = std::sin(std::numbers::pi / period * std::abs(a - b)) / length_scale;
  return constant * std::exp(-2 * wave * wave);
}

std::vector<PeriodicKernel> restart_kernels(const KernelBounds& bounds, int starts, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  const PeriodicKernel usual;
  std::vector<PeriodicKernel> kernels{{.constant = bounds.constant.clamp(usual.constant),
                                       .length_scale = bounds.length_scale.clamp(usual.length_scale),
                                       .period = bounds.period.clamp(usual.period)}};
  while (static_cast<int>(kernels.size()) < starts) {
    std::array<double, 3> drawn{};
    const std::array<Interval, 3> box = log_box(bounds);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      drawn[i] = box[i].least + uniform(generator) * (box[i].most - box[i].least);
    }
    kernels.push_back(kernel_at(drawn));
  }
  return kernels;
}

base::Result<GaussianProcess> GaussianProcess::condition(std::span<const double> x, std::span<const double> y,
                                                         const PeriodicKernel& kernel) {
  YOKE_CHECK(check_points(x, y));
  YOKE_CHECK(check_kernel(kernel));
  GaussianProcess process;
  process.kernel_ = kernel;
  process.x_.assign(x.begin(), x.end());
  process.y_.assign(y.begin(), y.end());
  Eigen::Map<Vector> values(process.y_.data(), static_cast<Eigen::Index>(y.size()));
  process.y_mean_ = values.mean();
  values.array() -= process.y_mean_;
  const double deviation = std::sqrt(values.squaredNorm() / static_cast<double>(y.size()));
  // Equal values differ from their mean by rounding at most: that is no deviation.
  const double rounding = 10 * std::numeric_limits<double>::epsilon() * std::abs(process.y_mean_);
  process.y_scale_ = deviation > rounding ? deviation : 1;
  values /= process.y_scale_;
  process.factorize();
  return process;
}

void GaussianProcess::factorize() {
  const auto n = static_cast<double>(x_.size());
  const Matrix matrix = kernel_matrix(kernel_, x_);
  // Below the rounding of the matrix itself noise would be absorbed, and the likelihood mere chance.
  noise_ = std::max(kNoise, n * std::numeric_limits<double>::epsilon() * kernel_.constant);
  for (int step = 0; step < kMaxNoiseSteps; ++step, noise_ *= 10) {
    const Matrix noisy = matrix + noise_ * Matrix::Identity(matrix.rows(), matrix.cols());
    const Eigen::LLT<Matrix> cholesky(noisy);
    if (cholesky.info() != Eigen::Success) continue;
    const Matrix factor = cholesky.matrixL();
    const Vector weights = cholesky.solve(view(y_));
    if (!weights.allFinite()) continue;
    factor_.assign(factor.data(), factor.data() + factor.size());
    weights_.assign(weights.begin(), weights.end());
    log_likelihood_ =
        -0.5 * view(y_).dot(weights) - factor.diagonal().array().log().sum() - 0.5 * n * std::log(2 * std::numbers::pi);
    return;
  }
  base::require(false, fmt::format("no noise up to {} makes the kernel matrix positive definite", noise_));
}

std::array<double, 3> GaussianProcess::likelihood_gradient() const {
  const auto n = static_cast<Eigen::Index>(x_.size());
  const auto factor = square_view(factor_, x_.size()).triangularView<Eigen::Lower>();
  const Matrix inverse_factor = factor.solve(Matrix::Identity(n, n));
  // d L / d theta = 1/2 trace((w w^T - K^-1) dK / d theta).
  const Matrix inner = view(weights_) * view(weights_).transpose() - inverse_factor.transpose() * inverse_factor;

  std::array<double, 3> gradient{};
  const double squared_length = kernel_.length_scale * kernel_.length_scale;
  for (Eigen::Index column = 0; column < n; ++column) {
    gradient[0] += 0.5 * inner(column, column) * kernel_.constant;
    for (Eigen::Index row = column + 1; row < n; ++row) {
      const double a = x_[static_cast<std::size_t>(row)];
      const double b = x_[static_cast<std::size_t>(column)];
      const double angle = std::numbers::pi / kernel_.period * std::abs(a - b);
      // Twice one half: the matrix is symmetric.
      const double share = inner(row, column) * kernel_(a, b);
      const double sine = std::sin(angle);
      gradient[0] += share;
      gradient[1] += share * 4 * sine * sine / squared_length;
      gradient[2] += share * 4 * sine * std::cos(angle) * angle / squared_length;
    }
  }
  return gradient;
}

base::Result<GaussianProcess> GaussianProcess::fit(std::span<const double> x, std::span<const double> y,
                                                   const KernelBounds& bounds, std::span<const PeriodicKernel> starts) {
  if (starts.empty()) return base::input_error("fitting a Gaussian process needs at least one kernel to start from");
  for (const Interval& bound : {bounds.constant, bounds.length_scale, bounds.period}) {
    if (!(bound.least >= 1 / kLargest && bound.least <= bound.most && bound.most <= kLargest)) {
      return base::input_error(
          fmt::format("a kernel parameter's bounds must be in order and from {} to {}; found {} and {}", 1 / kLargest,
                      kLargest, bound.least, bound.most));
    }
  }
  YOKE_TRY(GaussianProcess process, condition(x, y, starts.front()));
  const auto negative_likelihood = [&process](std::span<const double> at, std::span<double> gradient) {
    process.kernel_ = kernel_at(at);
    process.factorize();
    const std::array<double, 3> slope = process.likelihood_gradient();
    std::transform(slope.begin(), slope.end(), gradient.begin(), std::negate<>());
    return -process.log_likelihood_;
  };

  std::optional<Minimum> best;
  for (const PeriodicKernel& start : starts) {
    YOKE_CHECK(check_kernel(start));
    Minimum found = minimize(negative_likelihood, log_parameters(start), log_box(bounds));
    if (!best || std::tie(found.value, found.at) < std::tie(best->value, best->at)) best = std::move(found);
  }
  process.kernel_ = kernel_at(best->at);
  process.factorize();
  return process;
}

GaussianProcess::Posterior GaussianProcess::predict(double x) const {
  Vector covariance(static_cast<Eigen::Index>(x_.size()));
  for (Eigen::Index i = 0; i < covariance.size(); ++i) covariance[i] = kernel_(x, x_[static_cast<std::size_t>(i)]);
  const Vector explained = square_view(factor_, x_.size()).triangularView<Eigen::Lower>().solve(covariance);
  const double variance = std::max(0.0, kernel_.constant - explained.squaredNorm());
  return {.mean = y_mean_ + y_scale_ * covariance.dot(view(weights_)), .deviation = y_scale_ * std::sqrt(variance)};
}

}  // namespace yoke::adapt
