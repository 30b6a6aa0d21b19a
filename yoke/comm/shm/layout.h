// What lies where in the shared memory of a group: pure arithmetic. Everything starts out as zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "yoke/comm/op.h"
#include "yoke/comm/shm/counter.h"

namespace yoke::comm::shm {

/// Ops up to this size travel beside their signature, in one exchange.
inline constexpr std::size_t kInlineBytes = 16U << 10U;
/// Larger ones move through `kBuffers` buffers per rank, so that one can be filled while others are read.
inline constexpr std::size_t kBufferBytes = 256U << 10U;
inline constexpr std::size_t kBuffers = 4;
/// Every rank has a ring of bytes for messages to every other: more ranks, smaller rings.
inline constexpr std::size_t kRingsBytes = 64U << 20U;
inline constexpr int kLargestGroup = 256;

/// What a rank says when it enters a collective.
struct alignas(64) Entry {
  Signature signature;
  alignas(64) std::byte data[kInlineBytes];
};

/// Written by one rank, read by all.
struct Area {
  Counter entered;  // collectives
  Counter staged;   // buffers filled with data for others
  Counter reduced;  // buffers in which this rank's own piece is complete
  Counter taken;    // buffers of others that this rank no longer needs
  Counter bell;     // rung by others when a message ring of this rank has changed
  Entry entries[2];
  alignas(64) std::byte buffers[kBuffers][kBufferBytes];
};

/// Messages from one rank to another: a stream of bytes round and round.
struct Ring {
  alignas(64) std::atomic<std::uint64_t> written;  // bytes so far, by the sender
  alignas(64) std::atomic<std::uint64_t> read;     // by the receiver
  alignas(64) std::byte first;                     // the bytes begin here
};

class Layout {
 public:
  explicit Layout(int size);

  std::size_t bytes() const { return ranks_ * sizeof(Area) + ranks_ * ranks_ * ring_stride(); }
  std::size_t ring_bytes() const { return ring_bytes_; }

  Area& area(std::byte* memory, int rank) const {
    return *reinterpret_cast<Area*>(memory + static_cast<std::size_t>(rank) * sizeof(Area));
  }
  Ring& ring(std::byte* memory, int from, int to) const {
    const std::size_t index = static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to);
    return *reinterpret_cast<Ring*>(memory + ranks_ * sizeof(Area) + index * ring_stride());
  }

 private:
  std::size_t ring_stride() const { return offsetof(Ring, first) + ring_bytes_; }

  std::size_t ranks_;
  std::size_t ring_bytes_;  // a power of two
};

}  // namespace yoke::comm::shm
