#include "yoke/engine/optimizer/lr.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace yoke::engine {
namespace {

double step_rate(const plan::LrSpec& spec, double base_lr, double whole_epochs) {
  return base_lr * std::pow(spec.gamma, std::floor(whole_epochs / static_cast<double>(spec.every)));
}

double multistep_rate(const plan::LrSpec& spec, double base_lr, double whole_epochs) {
  const auto passed = std::ranges::count_if(
      spec.milestones, [&](std::int64_t epoch) { return static_cast<double>(epoch) <= whole_epochs; });
  return base_lr * std::pow(spec.gamma, static_cast<double>(passed));
}

double policy_rate(const plan::LrSpec& spec, double base_lr, const LrPosition& position) {
  const double whole_epochs = std::floor(position.epoch);
  // Of the way; the last step of training may lie beyond its end by a rounding.
  const double done = std::clamp(position.epoch / position.epochs, 0.0, 1.0);
  switch (spec.policy) {
    case plan::LrPolicy::kConstant:
      return base_lr;
    case plan::LrPolicy::kStep:
      return spec.milestones.empty() ? step_rate(spec, base_lr, whole_epochs)
                                     : multistep_rate(spec, base_lr, whole_epochs);
    case plan::LrPolicy::kMultistep:
      return multistep_rate(spec, base_lr, whole_epochs);
    case plan::LrPolicy::kExponential:
      return base_lr * std::pow(spec.gamma, whole_epochs);
    case plan::LrPolicy::kCosine:
      return spec.end + (base_lr - spec.end) * (1 + std::cos(std::numbers::pi * done)) / 2;
    case plan::LrPolicy::kPolynomial:
      return spec.end + (base_lr - spec.end) * std::pow(1 - done, spec.power);
  }
  return base_lr;
}

}  // namespace

double learning_rate(const plan::LrSpec& spec, double base_lr, const LrPosition& position) {
  const double rate = policy_rate(spec, base_lr, position);
  if (position.step >= spec.warmup_steps) return rate;
  const double share = static_cast<double>(position.step) / static_cast<double>(spec.warmup_steps);
  return rate * (spec.warmup_from + (1 - spec.warmup_from) * share);
}

}  // namespace yoke::engine
