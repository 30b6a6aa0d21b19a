// Ranks on several hosts are given a job file and a plan file each. Rank 0 decides by its own; who has others is told,
// instead of training something else than its files say.
#pragma once

#include <optional>
#include <string>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/cli/launch/environment.h"
#include "yoke/comm/store/store.h"

namespace yoke::cli {

struct RunOptions;

/// What a rank was given, as texts; absent: this host has not the file.
struct RunInputs {
  std::optional<std::string> job;
  std::optional<std::string> settings;  // of --set, one a line
  std::optional<std::string> plan;      // the file that the job names
};
RunInputs read_inputs(const RunOptions& options);

/// Every rank calls it. On rank 0 an input error, which names the first difference, when another rank was given a file
/// or settings that are not those of rank 0. The others learn it from what rank 0 says next.
base::Status compare_inputs(comm::Store& store, const RankIdentity& identity, const RunInputs& own,
                            const base::Deadline& deadline);

}  // namespace yoke::cli
