// The memory of CPU tensors: counted, so that profilers and tests can ask for a high-water mark, and kept for reuse, so
// that a training step, which allocates the same sizes again and again, takes no page faults. Large blocks ask for huge
// pages. Free of torch.
#pragma once

#include <cstdint>

namespace yoke::tensor {

struct MemoryUse {
  std::int64_t bytes = 0;       // in tensors now
  std::int64_t peak_bytes = 0;  // most at any time since reset_peak_cpu_memory()
};

/// From now on all new CPU tensors of this process are counted and recycled. Call once, early; again does nothing.
void use_metered_cpu_memory();

/// Zero before use_metered_cpu_memory(). Any thread.
MemoryUse cpu_memory();
void reset_peak_cpu_memory();
/// From now on a tensor that would bring cpu_memory().bytes above `bytes` is refused with std::bad_alloc: what a device
/// with that much memory does.
void limit_cpu_memory(std::int64_t bytes);
/// Gives what is kept for reuse back to the system.
void release_cached_cpu_memory();

}  // namespace yoke::tensor
