// What the engine needs of the device it computes on. CPU and CUDA implement it; everything else of the engine is the
// same for both.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

#include "yoke/tensor/memory.h"

namespace yoke::tensor {

/// A thread as one of a device's worker slots, until destruction. On CUDA a slot has a stream of its own.
class Slot {
 public:
  virtual ~Slot() = default;
  /// Until all that this slot was asked to compute is done.
  virtual void finish() = 0;
};

/// Any thread.
class Device {
 public:
  virtual ~Device() = default;
  virtual torch::Device where() const = 0;
  /// Makes the calling thread slot `slot` of `slots` that compute at once. Destroy it in the same thread.
  virtual std::unique_ptr<Slot> enter(int slot, int slots) = 0;
  /// A batch in host memory, on its way to the device's: later kernels of the calling slot see it there.
  virtual torch::Tensor upload(const torch::Tensor& host) = 0;
  virtual MemoryUse memory() const = 0;
  virtual void reset_peak_memory() = 0;
};

/// `threads` for kernels, shared by the slots. Counts memory only after use_metered_cpu_memory().
std::unique_ptr<Device> make_cpu_device(int threads);

}  // namespace yoke::tensor
