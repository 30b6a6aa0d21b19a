// What `yoke doctor` finds out about communication: which backends this build and machine offer, each tried out by two
// ranks.
#pragma once

#include <string>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/cli/check.h"

namespace yoke::cli {

/// One line per backend. `program` is what mpirun is to start as `program doctor --as-mpi-rank`; empty: MPI is not
/// tried. Takes up to ten seconds for each backend that does not answer.
std::vector<Check> check_backends(const std::string& program, const base::Clock& clock);

/// The body of `doctor --as-mpi-rank`: one rank of the trial, under mpirun. Rank 0 returns what to print.
base::Result<std::string> try_as_mpi_rank(const base::Clock& clock);

}  // namespace yoke::cli
