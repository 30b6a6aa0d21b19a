// What the engine needs of the device it computes on. CPU and CUDA implement it; everything else of the engine is the
// same for both. (CUDA is compiled, by the preset `cuda-check`, and has not run yet.)
#pragma once

#include <torch/torch.h>

#include <memory>

#include "yoke/tensor/memory.h"

namespace yoke::tensor {

/// A thread as one of a device's worker slots, until destruction. On CUDA a slot has a stream of its own. Used in that
/// thread only.
class Slot {
 public:
  virtual ~Slot() = default;
  /// A point in what the slot computes, for seconds_between(); up to kMarks of them, numbered.
  virtual void mark(int number) = 0;
  /// Precondition: both were marked and finish() was called since.
  virtual double seconds_between(int from, int to) = 0;
  /// Until all that this slot was asked to compute is done.
  virtual void finish() = 0;

  static constexpr int kMarks = 4;
};

/// Orders what several slots do to the same memory, which on CUDA runs later than it is asked for.
class Fence {
 public:
  virtual ~Fence() = default;
  /// What the calling thread asks for from now on comes after what was recorded.
  virtual void wait() = 0;
  /// Records all that the calling thread has asked for so far.
  virtual void record() = 0;
  /// Until what was recorded is done.
  virtual void block() = 0;
};

/// Any thread.
class Device {
 public:
  virtual ~Device() = default;
  virtual torch::Device where() const = 0;
  /// A generator of its own. (libtorch 1.13 leaks what Generator::clone() returns.)
  virtual at::Generator make_generator(std::uint64_t seed) const = 0;
  /// Makes the calling thread slot `slot` of `slots` that compute at once. Destroy it in the same thread.
  virtual std::unique_ptr<Slot> enter(int slot, int slots) = 0;
  virtual std::unique_ptr<Fence> make_fence() = 0;
  /// A batch in host memory, on its way to the device's: later kernels of the calling slot see it there.
  virtual torch::Tensor upload(const torch::Tensor& host) = 0;
  virtual MemoryUse memory() const = 0;
  virtual void reset_peak_memory() = 0;
};

/// `threads` for kernels, shared by the slots. Counts memory only after use_metered_cpu_memory().
std::unique_ptr<Device> make_cpu_device(int threads);

/// How many CUDA devices this build and this machine offer; 0 where libtorch has no CUDA.
int cuda_device_count();
/// Precondition: index < cuda_device_count().
std::unique_ptr<Device> make_cuda_device(int index);
/// The calling thread's CUDA calls are for this one. Same precondition.
void select_cuda_device(int index);

}  // namespace yoke::tensor
