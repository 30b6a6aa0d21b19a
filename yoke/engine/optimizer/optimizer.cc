#include "yoke/engine/optimizer/optimizer.h"

#include <fmt/format.h>

#include <cmath>

#include "yoke/base/error.h"
#include "yoke/engine/optimizer/fused.h"
#include "yoke/engine/optimizer/whole.h"

namespace yoke::engine {
namespace {

void require_flat(const torch::Tensor& tensor, std::string_view what) {
  base::require(
      tensor.defined() && tensor.dim() == 1 && tensor.is_contiguous() && tensor.scalar_type() == torch::kFloat32,
      fmt::format("{} of a bucket are no flat, dense f32 tensor", what));
}

void require_valid(const FlatBucket& bucket) {
  require_flat(bucket.weights, "the weights");
  require_flat(bucket.gradients, "the gradients");
  base::require(
      bucket.weights.numel() == bucket.gradients.numel(),
      fmt::format("a bucket has {} weights and {} gradients", bucket.weights.numel(), bucket.gradients.numel()));
  base::require(bucket.weights.device() == bucket.gradients.device(),
                "weights and gradients of a bucket are on different devices");
  std::int64_t end = 0;
  for (const auto& segment : bucket.segments) {
    base::require(segment.begin >= end && segment.count >= 0 && segment.begin + segment.count <= bucket.weights.numel(),
                  fmt::format("segment {} [{}, +{}) overlaps another or leaves its bucket of {}", segment.name,
                              segment.begin, segment.count, bucket.weights.numel()));
    end = segment.begin + segment.count;
  }
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const plan::OptimizerSpec& spec, std::vector<FlatBucket> buckets) {
  bool on_cpu = true;
  for (const auto& bucket : buckets) {
    require_valid(bucket);
    on_cpu = on_cpu && bucket.weights.is_cpu();
  }
  return on_cpu ? make_fused_optimizer(spec, std::move(buckets), best_kernels())
                : make_whole_optimizer(spec, std::move(buckets));
}

NamedState initial_state(const plan::OptimizerSpec& spec, const FlatBucket& bucket) {
  const auto zeros = [&] { return torch::zeros_like(bucket.weights, torch::TensorOptions().requires_grad(false)); };
  if (spec.name != plan::OptimizerName::kSgd) return {{"exp_avg", zeros()}, {"exp_avg_sq", zeros()}};
  if (spec.momentum != 0) return {{"momentum", zeros()}};
  return {};
}

bool decays(const plan::OptimizerSpec& spec, std::string_view parameter, std::int64_t dimensions) {
  const auto dot = parameter.rfind('.');
  const auto last = dot == std::string_view::npos ? parameter : parameter.substr(dot + 1);
  return spec.decay_all || (dimensions > 1 && last != "bias");
}

double squared_norm(const torch::Tensor& gradients) {
  require_flat(gradients, "the gradients");
  return gradients.is_cpu() ? fused_squared_norm(gradients, best_kernels()) : whole_squared_norm(gradients);
}

double clipped_scale(double scale, double squared, double max_norm) {
  if (max_norm <= 0) return scale;
  const double norm = std::abs(scale) * std::sqrt(squared);
  const double factor = max_norm / (norm + 1e-6);  // torch's guard against a division by zero
  return factor > 1 ? scale : scale * factor;
}

}  // namespace yoke::engine
