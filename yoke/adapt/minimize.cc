#include "yoke/adapt/minimize.h"

#include <Eigen/Dense>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "yoke/base/error.h"

namespace yoke::adapt {
namespace {

constexpr int kMaxSteps = 200;
constexpr int kMaxHalvings = 40;
// Sufficient decrease of the line search (Armijo).
constexpr double kDecrease = 1e-4;
// Longest move of one variable in one step: keeps a first, unscaled step from leaping over the whole box.
constexpr double kLongestMove = 2.0;

struct Evaluated {
  Eigen::VectorXd at;
  Eigen::VectorXd gradient;
  double value = 0;
};

Evaluated evaluate(const Objective& objective, const Eigen::VectorXd& at) {
  Evaluated point{.at = at, .gradient = Eigen::VectorXd::Zero(at.size())};
  const auto size = static_cast<std::size_t>(at.size());
  point.value = objective({point.at.data(), size}, {point.gradient.data(), size});
  if (!std::isfinite(point.value) || !point.gradient.allFinite()) point.value = std::numeric_limits<double>::infinity();
  return point;
}

Eigen::VectorXd into_box(Eigen::VectorXd at, std::span<const Interval> box) {
  for (Eigen::Index i = 0; i < at.size(); ++i) at[i] = box[static_cast<std::size_t>(i)].clamp(at[i]);
  return at;
}

/// 1 for a variable that may move downhill, 0 for one that its bound holds.
Eigen::VectorXd free_variables(const Evaluated& point, std::span<const Interval> box) {
  Eigen::VectorXd free(point.at.size());
  for (Eigen::Index i = 0; i < free.size(); ++i) {
    const Interval& bound = box[static_cast<std::size_t>(i)];
    const bool held =
        (point.at[i] <= bound.least && point.gradient[i] > 0) || (point.at[i] >= bound.most && point.gradient[i] < 0);
    free[i] = held ? 0 : 1;
  }
  return free;
}

}  // namespace

Minimum minimize(const Objective& objective, std::span<const double> start, std::span<const Interval> box,
                 double tolerance) {
  base::require(start.size() == box.size(), "minimize: one interval per variable");
  const auto size = static_cast<Eigen::Index>(start.size());
  const Eigen::MatrixXd identity = Eigen::MatrixXd::Identity(size, size);
  Eigen::MatrixXd inverse_hessian = identity;
  Evaluated here = evaluate(objective, into_box(Eigen::Map<const Eigen::VectorXd>(start.data(), size), box));

  for (int step = 0; step < kMaxSteps && std::isfinite(here.value); ++step) {
    const Eigen::VectorXd free = free_variables(here, box);
    const Eigen::VectorXd slope = here.gradient.cwiseProduct(free);
    if (slope.lpNorm<Eigen::Infinity>() < tolerance) break;

    Eigen::VectorXd direction = -(inverse_hessian * slope).cwiseProduct(free);
    if (direction.dot(slope) >= 0) {
      inverse_hessian = identity;
      direction = -slope;
    }
    const double longest = direction.lpNorm<Eigen::Infinity>();
    if (longest > kLongestMove) direction *= kLongestMove / longest;

    bool improved = false;
    Evaluated next;
    double scale = 1;
    for (int halving = 0; halving < kMaxHalvings && !improved; ++halving, scale /= 2) {
      next = evaluate(objective, into_box(here.at + scale * direction, box));
      const double promised = here.gradient.dot(next.at - here.at);
      improved = promised < 0 && next.value <= here.value + kDecrease * promised && next.value < here.value;
    }
    if (!improved) {
      if (inverse_hessian == identity) break;
      inverse_hessian = identity;  // a stale curvature may be the cause: once more along the gradient
      continue;
    }

    const Eigen::VectorXd moved = next.at - here.at;
    const Eigen::VectorXd turned = next.gradient - here.gradient;
    const double curvature = moved.dot(turned);
    if (curvature > 1e-12 * moved.norm() * turned.norm()) {
      const Eigen::MatrixXd left = identity - moved * turned.transpose() / curvature;
      inverse_hessian = left * inverse_hessian * left.transpose() + moved * moved.transpose() / curvature;
    }
    here = std::move(next);
  }
  return Minimum{.at = {here.at.begin(), here.at.end()}, .value = here.value};
}

}  // namespace yoke::adapt
