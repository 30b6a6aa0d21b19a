// Which of a group's communicators, and which MPI tag on it, a message travels on: MPI's tags have 31 bits, a lane
// more.
//
//   bits 34-33   bit 32     bits 31-0
//   kind         channel    tag           the upper 4 of these bits choose the communicator, the lower 31 are the tag
//
// Bodies of unlike size share a lane: MPI reports a message of another size than expected.
#pragma once

#include <cstdint>

#include "yoke/comm/message/headed_transport.h"

namespace yoke::comm {

struct MpiLane {
  int communicator = 0;
  int tag = 0;
  auto operator<=>(const MpiLane&) const = default;
};

inline constexpr int kMpiCommunicators = 12;
inline constexpr int kMpiLargestTag = 0x7fffffff;

constexpr MpiLane mpi_lane(const Lane& lane) {
  constexpr std::uint64_t kTag = kMpiLargestTag;
  const std::uint64_t bits =
      static_cast<std::uint64_t>(lane.kind) << 33U | static_cast<std::uint64_t>(lane.channel) << 32U | lane.tag;
  return {.communicator = static_cast<int>(bits >> 31U), .tag = static_cast<int>(bits & kTag)};
}

}  // namespace yoke::comm
