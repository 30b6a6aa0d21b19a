// Compiled by the preset `cuda-check`; there was no GPU to run it on yet.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <array>

#include "yoke/base/mutex.h"
#include "yoke/tensor/device.h"

namespace yoke::tensor {
namespace {

/// A worker's stream. The thread's kernels go there while it lives.
class CudaSlot final : public Slot {
 public:
  explicit CudaSlot(c10::DeviceIndex device)
      : device_(device), stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)), guard_(stream_) {}

  void mark(int number) override { marks_.at(static_cast<std::size_t>(number)).record(stream_); }
  double seconds_between(int from, int to) override {
    const auto& begin = marks_.at(static_cast<std::size_t>(from));
    return static_cast<double>(begin.elapsed_time(marks_.at(static_cast<std::size_t>(to)))) / 1e3;
  }
  void finish() override { stream_.synchronize(); }

 private:
  const c10::cuda::CUDAGuard device_;
  const c10::cuda::CUDAStream stream_;
  const c10::cuda::CUDAStreamGuard guard_;
  std::array<at::cuda::CUDAEvent, kMarks> marks_{
      at::cuda::CUDAEvent(cudaEventDefault), at::cuda::CUDAEvent(cudaEventDefault),
      at::cuda::CUDAEvent(cudaEventDefault), at::cuda::CUDAEvent(cudaEventDefault)};
};

class CudaFence final : public Fence {
 public:
  void wait() override {
    base::MutexLock lock(mutex_);
    if (event_.isCreated()) event_.block(at::cuda::getCurrentCUDAStream());
  }
  void record() override {
    base::MutexLock lock(mutex_);
    event_.record(at::cuda::getCurrentCUDAStream());
  }
  void block() override {
    base::MutexLock lock(mutex_);
    if (event_.isCreated()) event_.synchronize();
  }

 private:
  base::Mutex mutex_;
  at::cuda::CUDAEvent event_ YOKE_GUARDED_BY(mutex_);
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(c10::DeviceIndex index) : index_(index) {}

  torch::Device where() const override { return {torch::kCUDA, index_}; }
  at::Generator make_generator(std::uint64_t seed) const override {
    auto generator = at::make_generator<at::CUDAGeneratorImpl>(index_);
    generator.set_current_seed(seed);
    return generator;
  }
  std::unique_ptr<Slot> enter(int /*slot*/, int /*slots*/) override { return std::make_unique<CudaSlot>(index_); }
  std::unique_ptr<Fence> make_fence() override { return std::make_unique<CudaFence>(); }
  torch::Tensor upload(const torch::Tensor& host) override {
    // Only from pinned memory does a copy run beside kernels. The caching host allocator keeps the block until the
    // copy is done.
    return host.pin_memory().to(where(), /*non_blocking=*/true);
  }
  MemoryUse memory() const override {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index_);
    const auto& bytes = stats.allocated_bytes[0];  // all pools together
    return {.bytes = bytes.current, .peak_bytes = bytes.peak};
  }
  void reset_peak_memory() override { c10::cuda::CUDACachingAllocator::resetPeakStats(index_); }

 private:
  const c10::DeviceIndex index_;
};

}  // namespace

int cuda_device_count() {
  return static_cast<int>(c10::cuda::device_count());
}

std::unique_ptr<Device> make_cuda_device(int index) {
  return std::make_unique<CudaDevice>(static_cast<c10::DeviceIndex>(index));
}

void select_cuda_device(int index) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
}

}  // namespace yoke::tensor
