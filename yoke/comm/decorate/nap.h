// A sleep that ends early when its call does.
#pragma once

#include <algorithm>
#include <thread>

#include "yoke/comm/backend.h"

namespace yoke::comm {

/// Until `end`, or the trouble of a call that was cancelled or is late before that.
inline Outcome nap_until(base::Instant end, int peer, const Call& call) {
  for (;;) {
    const auto now = call.clock().now();
    if (now >= end) return std::nullopt;
    if (auto ended = call.ended(peer)) return ended;
    std::this_thread::sleep_for(std::min({base::Duration(end - now), call.left(), kLongestSleep}));
  }
}

}  // namespace yoke::comm
