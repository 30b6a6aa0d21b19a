// Who this process is among the ranks of a job, from the variables that launchers set: `yoke run` itself, torchrun,
// Open MPI's mpirun, Slurm's srun.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "yoke/base/result.h"

namespace yoke::cli {

/// The value of a variable, absent when it is not set or empty. A parameter, so that tests need not change their own.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// That of this process.
std::optional<std::string> process_environment(const std::string& name);

enum class Launcher { kYoke, kTorchrun, kMpirun, kSrun };
/// `yoke`, `torchrun`, `mpirun`, `srun`.
std::string_view to_string(Launcher launcher);

struct RankIdentity {
  Launcher launcher = Launcher::kYoke;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::optional<int> local_size;  // ranks on this host; absent: the launcher did not say
  std::string store;              // host:port; empty (mpirun only): rank 0 takes a free port and shares it by MPI
};

/// Input errors name the variable that is missing, malformed or contradicts another. Where several launchers have left
/// variables (mpirun inside a Slurm job), the innermost counts: Yoke, torchrun, mpirun, srun.
base::Result<RankIdentity> identify_rank(const Environment& environment);

/// The first host of a Slurm node list: `gpu[07-09,12],login` is gpu07.
base::Result<std::string> first_slurm_host(std::string_view list);

/// What `yoke run` tells the ranks it starts, beside who they are.
struct ManagedRank {
  int report_fd = -1;        // a socket for report lines (reports.h)
  std::string plan;          // file; empty: none
  std::int64_t origin_ns{};  // where the steady clock stood when the job began: zero of the traces
};
/// Absent when another launcher has started this process.
base::Result<std::optional<ManagedRank>> managed_rank(const Environment& environment);

}  // namespace yoke::cli
