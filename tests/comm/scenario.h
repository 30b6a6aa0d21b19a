// What every rank of a group does in the tests that run on all backends. The same functions run in threads (local) and
// in processes (rank_main.cc).
#pragma once

#include <string>

#include "yoke/base/clock.h"
#include "yoke/comm/group.h"

namespace yoke::comm::testing {

struct Scenario {
  std::string name;  // see scenario.cc
  std::string op;    // the op that `loop` repeats: all_reduce, ..., barrier, message, threads
  int victim = -1;   // the rank that does something wrong
  std::string act;   // what it does: kill, stop, disconnect, nothing
  base::Duration patience = std::chrono::seconds(20);
};

/// Returns what is wrong, or nothing if all is as it should be. A scenario in which the group must fail returns a
/// report of the failure instead: `failed after 0.512 s, ranks 2: <message>`.
std::string play(const Scenario& scenario, Group& group, const base::Clock& clock);

}  // namespace yoke::comm::testing
