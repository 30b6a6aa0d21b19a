// How tests run mpirun.
#pragma once

#include <string>
#include <vector>

namespace yoke::testing {

/// mpirun refuses root unless told otherwise. MPI's own shared memory, which jobs that are killed leave behind, is in
/// `folder`: it goes with the test. OpenMPI keeps memory at its end, which is no leak of ours.
inline std::vector<std::string> mpirun_environment(const std::string& folder) {
  return {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
          "OMPI_MCA_btl_vader_backing_directory=" + folder, "OMPI_MCA_btl_sm_backing_directory=" + folder,
          "ASAN_OPTIONS=detect_leaks=0"};
}

}  // namespace yoke::testing
