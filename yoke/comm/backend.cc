#include "yoke/comm/backend.h"

#include <fmt/format.h>

namespace yoke::comm {

Trouble mismatch(int peer, const Signature& ours, const Signature& theirs) {
  return {.kind = Trouble::Kind::kMismatch,
          .peer = peer,
          .detail = fmt::format("called {} where this rank called {}", theirs.to_string(), ours.to_string())};
}

Outcome Call::ended(int peer) const {
  if (cancelled()) return Trouble{.kind = Trouble::Kind::kCancelled, .peer = peer};
  if (deadline_.passed(clock_)) return Trouble{.kind = Trouble::Kind::kTimedOut, .peer = peer};
  return std::nullopt;
}

}  // namespace yoke::comm
