// Collectives by NCCL on device memory. Compiled and linked where the CUDA toolkit is; it has not been run yet, for
// want of a GPU. nccl.cc or no_nccl.cc.
#pragma once

#include <memory>

#include "yoke/comm/join.h"

namespace yoke::comm {

/// The device is the one that is current in the calling thread. `op.data` must be its memory, and what fills it must be
/// done when an op starts; what an op brings is there when it is done. Messages from one rank to another must be
/// received in the order sent, whatever their tags. A maximum with a NaN is what NCCL makes of it.
base::Result<std::unique_ptr<Backend>> make_nccl_backend(const BackendOptions& options, const base::Deadline& deadline);
BackendInfo nccl_info();

}  // namespace yoke::comm
