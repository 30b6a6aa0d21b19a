// What the ops of a schedule refer to, found out once before it is executed: which message a send is and which receive
// waits for it, which devices meet in a reduce and over which path, which backward pass fills its bucket. Plain values.
#pragma once

#include <vector>

#include "yoke/plan/schedule.h"
#include "yoke/sim/costs.h"
#include "yoke/sim/network.h"

namespace yoke::sim {

/// What one op refers to.
struct OpLink {
  int id = -1;        // of a message or collective: its number
  int backward = -1;  // the last backward pass before it in the list
  int bucket = -1;    // of a reduce or update: in the device's order
};

/// One message, from its send to its receive.
struct MessageRoute {
  int from = -1;  // programs
  int to = -1;
  int path = -1;  // an index into Wiring::paths
};

/// One reduce or norm, of all its members together.
struct Collective {
  int segment = -1;  // -1: a norm, of all devices
  double bytes = 0;
  double seconds = 0;  // beside its bytes
};

struct Wiring {
  /// The costs must be the schedule's.
  static Wiring make(const plan::Schedule& schedule, const Costs& costs, const Network& network);

  std::vector<std::vector<OpLink>> links;  // by program and op
  std::vector<int> buckets;                // by program: updates that make a version
  std::vector<MessageRoute> messages;      // by number
  std::vector<Collective> collectives;     // by number
  std::vector<Path> paths;                 // of messages
  std::vector<Path> rings;                 // by segment
};

}  // namespace yoke::sim
