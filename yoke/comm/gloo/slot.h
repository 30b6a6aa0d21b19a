// Which of gloo's 64-bit slots a message travels on. Both sides work it out for themselves, so it is part of the wire.
//
//   bits 63-62   bit 61     bits 60-32            bits 31-0
//   kind         channel    size of a body        tag           sizes beyond half a gigabyte by their remainder
#pragma once

#include <cstdint>

#include "yoke/comm/message/headed_transport.h"

namespace yoke::comm {

constexpr std::uint64_t gloo_slot(const Lane& lane) {
  constexpr std::uint64_t kPrime = 536'870'909;  // the largest below 2^29
  return static_cast<std::uint64_t>(lane.kind) << 62U | static_cast<std::uint64_t>(lane.channel) << 61U |
         (lane.bytes % kPrime) << 32U | lane.tag;
}

/// A receive on this slot never ends: nothing is sent on it.
inline constexpr std::uint64_t kGlooCanarySlot = std::uint64_t{3} << 62U;

}  // namespace yoke::comm
