#include "yoke/engine/gradient_sum.h"

#include <fmt/format.h>

namespace yoke::engine {

GradientSum::GradientSum(const Parameters& parameters, tensor::Device& device, bool reproducible)
    : parameters_(parameters), missing_(parameters.buckets().size()) {
  for (std::size_t i = 0; i < parameters.count(); ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->fence = device.make_fence();
    const Place place = parameters.place(i);
    fences_.resize(std::max(fences_.size(), place.bucket + 1));
    fences_[place.bucket].push_back(slots_.back()->fence.get());
  }
  if (!reproducible) return;
  for (const auto& bucket : parameters.buckets()) {
    sums_.emplace_back(static_cast<std::size_t>(bucket.weights.numel()));
    sum_mutexes_.push_back(std::make_unique<base::Mutex>());
  }
}

void GradientSum::begin(int workers) {
  {
    base::MutexLock lock(mutex_);
    error_.reset();
  }
  for (auto& sum : sums_) sum.reset();
  for (const auto& slot : slots_) {
    base::MutexLock lock(slot->mutex);
    slot->touched = false;
  }
  const auto& buckets = parameters_.buckets();
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (workers == 0) buckets[i].gradients.zero_();
    missing_[i].store(workers * static_cast<std::int64_t>(buckets[i].segments.size()));
  }
}

void GradientSum::add(std::size_t parameter, const torch::Tensor& gradient, double weight) {
  const torch::NoGradGuard no_grad;
  if (reproducible()) {
    add_reproducibly(parameter, gradient, weight);
  } else {
    add_plain(parameter, gradient, weight);
  }
  const auto bucket = parameters_.place(parameter).bucket;
  if (missing_[bucket].fetch_sub(1) == 1) {
    base::MutexLock lock(mutex_);
    changed_.notify_all();
  }
}

void GradientSum::add_plain(std::size_t parameter, const torch::Tensor& gradient, double weight) {
  auto into = parameters_.gradient(parameter);
  Slot& slot = *slots_[parameter];
  base::MutexLock lock(slot.mutex);
  const bool first = !std::exchange(slot.touched, true);
  slot.fence->wait();
  if (!gradient.defined()) {
    if (first) into.zero_();
  } else if (first) {
    into.copy_(gradient);
    if (weight != 1) into.mul_(weight);
  } else {
    into.add_(gradient, weight);
  }
  slot.fence->record();
}

void GradientSum::add_reproducibly(std::size_t parameter, const torch::Tensor& gradient, double weight) {
  if (!gradient.defined()) return;
  auto plain = gradient.to(torch::kCPU, torch::kFloat).contiguous();
  if (weight != 1) plain = plain * weight;
  const Place place = parameters_.place(parameter);
  const auto begin = parameters_.buckets()[place.bucket].segments[place.slot].begin;
  base::MutexLock lock(*sum_mutexes_[place.bucket]);
  sums_[place.bucket].add(static_cast<std::size_t>(begin), floats_of(plain));
}

base::Status GradientSum::wait(std::size_t bucket, const base::Deadline& deadline) {
  base::MutexLock lock(mutex_);
  while (!error_ && missing_[bucket].load() > 0) {
    if (!changed_.wait(mutex_, deadline) && !error_ && missing_[bucket].load() > 0) {
      return base::peer_error(
          fmt::format("{} gradients of bucket {} did not come in time", missing_[bucket].load(), bucket));
    }
  }
  if (error_) return *error_;
  for (tensor::Fence* fence : fences_[bucket]) fence->block();
  return {};
}

void GradientSum::cancel(base::Error error) {
  base::MutexLock lock(mutex_);
  if (!error_) error_ = std::move(error);
  changed_.notify_all();
}

}  // namespace yoke::engine
