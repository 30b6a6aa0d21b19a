#include "yoke/tensor/device.h"

#include <algorithm>

namespace yoke::tensor {
namespace {

class CpuSlot final : public Slot {
 public:
  void finish() override {}  // kernels have computed when they return
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads) : threads_(threads) {}

  torch::Device where() const override { return torch::kCPU; }
  std::unique_ptr<Slot> enter(int /*slot*/, int slots) override {
    // Holds for the calling thread: each has its own team of kernel threads.
    at::set_num_threads(std::max(1, threads_ / slots));
    return std::make_unique<CpuSlot>();
  }
  torch::Tensor upload(const torch::Tensor& host) override { return host; }
  MemoryUse memory() const override { return cpu_memory(); }
  void reset_peak_memory() override { reset_peak_cpu_memory(); }

 private:
  const int threads_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) {
  return std::make_unique<CpuDevice>(threads);
}

}  // namespace yoke::tensor
