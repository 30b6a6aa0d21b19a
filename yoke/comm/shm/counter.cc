#include "yoke/comm/shm/counter.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace yoke::comm::shm {
namespace {

void pause_core() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// Cores that this process may use.
int usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

}  // namespace

Patience Patience::for_ranks(int ranks) {
  // Yielding for about a millisecond costs less than the tenths of one that waking a sleeper takes on virtual machines,
  // and whoever has something to do gets the core.
  constexpr int kYields = 1000;
  return {.spins = ranks > usable_cores() ? 0 : 300, .yields = kYields};
}

void Counter::raise_to(std::uint32_t target) {
  // Both sides use sequentially consistent order: either we see the sleeper or it sees the new value.
  value.store(target, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0) wake_all(value);
}

void Counter::ring() {
  value.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0) wake_all(value);
}

void Counter::sleep_while(std::uint32_t seen, base::Duration longest) {
  const auto ns = std::max<std::int64_t>(longest.count(), 0);
  const timespec limit{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (value.load(std::memory_order_seq_cst) == seen) {
    ::syscall(SYS_futex, &value, FUTEX_WAIT, seen, &limit, nullptr, 0);
  }
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

Outcome Counter::wait(std::uint32_t target, int peer, const Call& call, const std::atomic<bool>& interrupted,
                      Patience patience) {
  if (reached(target)) return std::nullopt;
  call.wait_for(peer);
  for (int i = 0; i < patience.spins; ++i) {
    if (reached(target)) return std::nullopt;
    pause_core();
  }
  for (int i = 0; i < patience.yields; ++i) {
    if (reached(target)) return std::nullopt;
    ::sched_yield();
  }
  for (;;) {
    const auto seen = value.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(seen - target) >= 0) return std::nullopt;
    if (interrupted.load(std::memory_order_acquire)) return Trouble{.kind = Trouble::Kind::kCancelled, .peer = peer};
    if (auto ended = call.ended(peer)) return ended;
    sleep_while(seen, std::min(call.left(), kLongestSleep));
  }
}

}  // namespace yoke::comm::shm
