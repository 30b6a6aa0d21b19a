// A number in shared memory that one rank raises and others wait for. Waiting spins for a moment, then sleeps in the
// kernel (futex); raising it costs a system call only if somebody sleeps.
#pragma once

#include <atomic>
#include <cstdint>

#include "yoke/comm/backend.h"

namespace yoke::comm::shm {

/// How to wait: spinning pays only while every rank has a core to itself.
struct Patience {
  int spins = 0;
  int yields = 0;

  static Patience for_ranks(int ranks);
};

/// Lives in zeroed shared memory: a counter of 0 without sleepers. Counts modulo 2^32.
struct alignas(64) Counter {
  std::atomic<std::uint32_t> value;
  std::atomic<std::uint32_t> sleepers;

  bool reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
  }
  /// Sets the value and wakes whoever sleeps. One thread at a time.
  void raise_to(std::uint32_t target);
  /// Adds one and wakes whoever sleeps. Any thread of any process.
  void ring();
  /// Until the value has reached `target`, the call has ended or `interrupted` is set.
  Outcome wait(std::uint32_t target, int peer, const Call& call, const std::atomic<bool>& interrupted,
               Patience patience);
  /// One nap: until the value is no longer `seen`, somebody wakes us or `longest` has passed.
  void sleep_while(std::uint32_t seen, base::Duration longest);
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

}  // namespace yoke::comm::shm
