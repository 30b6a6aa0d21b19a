// Messages by MPI, for ranks that mpirun or srun has started. mpi.cc where the library is there, no_mpi.cc where not.
#pragma once

#include <memory>

#include "yoke/comm/join.h"

namespace yoke::comm {

/// MPI for the life of the process: make one before the first group and destroy it after the last. Only one at a time.
/// MPI cannot take back what it has begun: after a failure the memory of messages under way must stay until the process
/// ends, which it should soon. MPI is then not finalized, and mpirun ends the other ranks.
class MpiSession {
 public:
  virtual ~MpiSession() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Text from rank 0 to all: how the address of the store gets around. Every rank calls it.
  virtual base::Result<std::string> share(std::string_view text) = 0;
};

base::Result<std::unique_ptr<MpiSession>> start_mpi();

/// Rank and size must be those of the session, which must exist. Ranks make their groups in the same order.
base::Result<std::unique_ptr<Backend>> make_mpi_backend(const BackendOptions& options, const base::Deadline& deadline);
BackendInfo mpi_info();

}  // namespace yoke::comm
