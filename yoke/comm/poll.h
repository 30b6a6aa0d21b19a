// Waiting for something that can only be asked whether it is done, by libraries that offer no better.
#pragma once

#include <sched.h>

#include <cstdint>
#include <thread>

#include "yoke/comm/backend.h"

namespace yoke::comm {

/// Calls `done(trouble)` until it returns true, and returns the trouble it has set, if any; or ends with the trouble
/// that `ended()` returns. Asks as often as it can at first, then yields in between, then sleeps: ranks may outnumber
/// cores.
template <typename Done, typename Ended>
Outcome poll(Done done, Ended ended, const base::Clock& clock) {
  constexpr base::Duration kYieldFor = std::chrono::milliseconds(2);
  constexpr base::Duration kNap = std::chrono::microseconds(100);
  const auto start = clock.now();
  for (std::uint64_t turn = 0;; ++turn) {
    Outcome trouble;
    if (done(trouble)) return trouble;
    // Looking at the clock costs as much as asking.
    if (turn % 16 != 15) continue;
    if (auto end = ended()) return end;
    if (clock.now() - start < kYieldFor) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

}  // namespace yoke::comm
