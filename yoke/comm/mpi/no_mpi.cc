#include "yoke/comm/mpi/mpi.h"

namespace yoke::comm {
namespace {

base::Error no_mpi() {
  return base::input_error("this build has no MPI; install libopenmpi-dev and configure with -DYOKE_MPI=ON");
}

}  // namespace

base::Result<std::unique_ptr<MpiSession>> start_mpi() {
  return no_mpi();
}

base::Result<std::unique_ptr<Backend>> make_mpi_backend(const BackendOptions&, const base::Deadline&) {
  return no_mpi();
}

BackendInfo mpi_info() {
  return {.name = "mpi", .available = false, .detail = "built without MPI (Debian: libopenmpi-dev)"};
}

}  // namespace yoke::comm
