#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "yoke/tensor/device.h"

namespace yoke::tensor {
namespace {

/// Kernels have computed when they return, so there is nothing to wait for.
class CpuSlot final : public Slot {
 public:
  void mark(int number) override { marks_.at(static_cast<std::size_t>(number)) = std::chrono::steady_clock::now(); }
  double seconds_between(int from, int to) override {
    const auto at = [&](int number) { return marks_.at(static_cast<std::size_t>(number)); };
    return std::chrono::duration<double>(at(to) - at(from)).count();
  }
  void finish() override {}

 private:
  std::array<std::chrono::steady_clock::time_point, kMarks> marks_{};
};

class CpuFence final : public Fence {
 public:
  void wait() override {}
  void record() override {}
  void block() override {}
};

/// OpenBLAS with threads of its own does not listen to libtorch: it would take every core of the machine for each rank.
/// One that is built for OpenMP uses libtorch's threads and needs no word. Which BLAS there is, is known at run time.
void set_blas_threads(int threads) {
  using Setter = void (*)(int);
  using Getter = int (*)();
  constexpr int kOwnThreads = 1;
  static const auto parallel = reinterpret_cast<Getter>(::dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
  static const auto setter = reinterpret_cast<Setter>(::dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (parallel != nullptr && setter != nullptr && parallel() == kOwnThreads) setter(threads);
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads) : threads_(threads) {}

  torch::Device where() const override { return torch::kCPU; }
  at::Generator make_generator(std::uint64_t seed) const override { return at::detail::createCPUGenerator(seed); }
  std::unique_ptr<Slot> enter(int /*slot*/, int slots) override {
    // Holds for the calling thread: each has its own team of kernel threads.
    const int threads = std::max(1, threads_ / slots);
    at::set_num_threads(threads);
    set_blas_threads(threads);
    return std::make_unique<CpuSlot>();
  }
  std::unique_ptr<Fence> make_fence() override { return std::make_unique<CpuFence>(); }
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
