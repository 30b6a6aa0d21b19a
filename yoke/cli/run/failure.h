// What people are told when a run fails: which rank was first, where it ran, what ended it, and what it said last.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "yoke/base/error.h"
#include "yoke/cli/launch/processes.h"
#include "yoke/engine/rank.h"

namespace yoke::cli {

/// What is known of a run beside how its processes ended.
struct RunFacts {
  std::vector<engine::DeviceSpec> devices;  // by rank
  std::map<int, base::Error> errors;        // that ranks have reported
  std::int64_t step = 0;                    // the last one done; 0: none
  std::string host;
  std::string folder;
};

/// The rank whose failure the others only complain about, as far as their ends (LaunchOutcome::cause) and their words
/// tell: among ranks with exit code 4, one that names a file has failed by itself, e.g. on a full disk. nullptr: none.
const RankEnd* first_failure(const LaunchOutcome& outcome, const RunFacts& facts);

/// Bad input and infeasible requests are the rank's own words; everything else names rank, device, host, how it ended
/// (and what the rank said), the log and what to do. The kind is the exit code's: 2, 3, 1 as the rank had it, else 4.
base::Error failure_of(const RankEnd& cause, const RunFacts& facts);

/// The ends of all ranks in order and the last lines of the one that failed first, for the log.
std::vector<std::string> failure_report(const LaunchOutcome& outcome, const RankEnd& cause, const RunFacts& facts);

}  // namespace yoke::cli
