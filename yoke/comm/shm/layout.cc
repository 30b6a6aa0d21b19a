#include "yoke/comm/shm/layout.h"

#include <algorithm>
#include <bit>

namespace yoke::comm::shm {

Layout::Layout(int size)
    : ranks_(static_cast<std::size_t>(size)),
      ring_bytes_(std::clamp<std::size_t>(std::bit_floor(kRingsBytes / (ranks_ * ranks_)), 16U << 10U, 1U << 20U)) {}

}  // namespace yoke::comm::shm
