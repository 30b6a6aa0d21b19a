// Where the gradients of all workers of a device meet: each is added, weighted, into the flat buckets the moment the
// backward pass has it, and then freed. A bucket is complete once every worker has added to each of its parameters.
//
// With `reproducible` the sums do not depend on the order of the workers, nor on which devices they ran.
#pragma once

#include <torch/torch.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/mutex.h"
#include "yoke/base/result.h"
#include "yoke/comm/reproducible/reproducible.h"
#include "yoke/engine/parameters.h"
#include "yoke/tensor/device.h"

namespace yoke::engine {

class GradientSum {
 public:
  /// `parameters` and `device` must outlive this.
  GradientSum(const Parameters& parameters, tensor::Device& device, bool reproducible);
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  /// A new step, in which `workers` workers add to every parameter. With none, the sums are zero and complete.
  void begin(int workers);
  /// Adds weight x gradient; an undefined gradient is zero. Any thread.
  void add(std::size_t parameter, const torch::Tensor& gradient, double weight);
  /// Until the bucket is complete, cancel() was called or the deadline has passed.
  base::Status wait(std::size_t bucket, const base::Deadline& deadline);
  /// Ends all waits of this step with the error.
  void cancel(base::Error error);

  bool reproducible() const { return !sums_.empty(); }
  /// Precondition: reproducible(), and the bucket is complete.
  comm::ReproducibleSum& sum(std::size_t bucket) { return sums_[bucket]; }

 private:
  struct Slot {
    base::Mutex mutex;
    std::unique_ptr<tensor::Fence> fence;         // after the last addition
    bool touched YOKE_GUARDED_BY(mutex) = false;  // in this step: the first one overwrites
  };

  void add_plain(std::size_t parameter, const torch::Tensor& gradient, double weight);
  void add_reproducibly(std::size_t parameter, const torch::Tensor& gradient, double weight);

  const Parameters& parameters_;
  std::vector<std::unique_ptr<Slot>> slots_;         // by parameter
  std::vector<std::vector<tensor::Fence*>> fences_;  // of the slots of each bucket
  std::vector<comm::ReproducibleSum> sums_;          // by bucket; empty: plain sums
  std::vector<std::unique_ptr<base::Mutex>> sum_mutexes_;
  std::vector<std::atomic<std::int64_t>> missing_;  // contributions, by bucket

  base::Mutex mutex_;
  base::Condition changed_;
  std::optional<base::Error> error_ YOKE_GUARDED_BY(mutex_);
};

}  // namespace yoke::engine
