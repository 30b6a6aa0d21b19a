#include "yoke/tensor/memory.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>
#include <vector>

#include "yoke/base/mutex.h"
#include "yoke/tensor/compat.h"

namespace yoke::tensor {
namespace {

constexpr std::size_t kAlignment = 64;        // of tensors: a cache line
constexpr std::size_t kCachedFrom = 1 << 16;  // smaller blocks are left to malloc, which is good at them
constexpr std::size_t kHugePage = 2U << 20U;

/// Precedes every block.
struct Header {
  std::size_t wanted = 0;    // bytes asked for
  std::size_t capacity = 0;  // bytes of the block without the header; 0: not recycled
};
static_assert(sizeof(Header) <= kAlignment);

/// Eight sizes between two powers of two: at most an eighth is wasted.
std::size_t size_class(std::size_t bytes) {
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

class Memory {
 public:
  void* take(std::size_t bytes) {
    const auto count = static_cast<std::int64_t>(bytes);
    const auto now = bytes_.fetch_add(count) + count;
    const std::size_t capacity = bytes >= kCachedFrom ? size_class(bytes) : 0;
    std::byte* block = nullptr;
    if (now <= limit_.load()) {
      if (capacity > 0) block = recycled(capacity);
      if (block == nullptr) block = fresh(capacity > 0 ? capacity : bytes);
    }
    if (block == nullptr) {
      bytes_.fetch_sub(count);
      throw std::bad_alloc();
    }
    new (block) Header{bytes, capacity};
    auto peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
    return block + kAlignment;
  }

  void give_back(void* data) {
    std::byte* block = static_cast<std::byte*>(data) - kAlignment;
    const Header header = *std::launder(reinterpret_cast<Header*>(block));
    bytes_.fetch_sub(static_cast<std::int64_t>(header.wanted));
    if (header.capacity == 0) return std::free(block);
    base::MutexLock lock(mutex_);
    free_[header.capacity].push_back(block);
  }

  void release() {
    base::MutexLock lock(mutex_);
    for (auto& [capacity, blocks] : free_) {
      for (std::byte* block : blocks) std::free(block);
    }
    free_.clear();
  }

  MemoryUse use() const { return {.bytes = bytes_.load(), .peak_bytes = peak_.load()}; }
  void reset_peak() { peak_.store(bytes_.load()); }
  void limit(std::int64_t bytes) { limit_.store(bytes); }

 private:
  std::byte* recycled(std::size_t capacity) {
    base::MutexLock lock(mutex_);
    const auto found = free_.find(capacity);
    if (found == free_.end() || found->second.empty()) return nullptr;
    std::byte* block = found->second.back();
    found->second.pop_back();
    return block;
  }

  /// nullptr when the system has no more.
  std::byte* fresh(std::size_t bytes) {
    const std::size_t whole = bytes + kAlignment;
    const bool huge = whole >= kHugePage;
    void* block = nullptr;
    if (::posix_memalign(&block, huge ? kHugePage : kAlignment, whole) != 0) {
      // What is kept may be of the wrong sizes for what is wanted now.
      release();
      if (::posix_memalign(&block, kAlignment, whole) != 0) return nullptr;
    }
    if (huge) ::madvise(block, whole, MADV_HUGEPAGE);  // advice: where it is not taken, nothing is lost
    return static_cast<std::byte*>(block);
  }

  std::atomic<std::int64_t> bytes_{0};
  std::atomic<std::int64_t> peak_{0};
  std::atomic<std::int64_t> limit_{std::numeric_limits<std::int64_t>::max()};
  base::Mutex mutex_;
  std::map<std::size_t, std::vector<std::byte*>> free_ YOKE_GUARDED_BY(mutex_);  // by capacity
};

/// The process's: tensors may outlive every object of ours, so it is never destroyed.
Memory& memory() {
  static Memory& instance = *new Memory;
  return instance;
}

/// Also of nothing, as free().
void give_back(void* data) {
  if (data == nullptr) return;
  memory().give_back(data);
}

class MeteredAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) YOKE_ALLOCATE_CONST override {
    if (bytes == 0) return {nullptr, nullptr, &give_nothing_back, c10::Device(c10::DeviceType::CPU)};
    void* data = memory().take(bytes);
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
#if YOKE_TORCH_AT_LEAST(2, 3)
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
#endif

 private:
  static void give_nothing_back(void* /*data*/) {}
};

std::atomic<bool> in_use{false};

}  // namespace

void use_metered_cpu_memory() {
  if (in_use.exchange(true)) return;
  static MeteredAllocator& allocator = *new MeteredAllocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
}

MemoryUse cpu_memory() {
  return memory().use();
}

void reset_peak_cpu_memory() {
  memory().reset_peak();
}

void limit_cpu_memory(std::int64_t bytes) {
  memory().limit(bytes);
}

void release_cached_cpu_memory() {
  memory().release();
}

}  // namespace yoke::tensor
