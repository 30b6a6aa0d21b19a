// Ranks that are processes of one host, through POSIX shared memory: no system call while both sides are awake.
#pragma once

#include <memory>

#include "yoke/comm/join.h"

namespace yoke::comm {

/// All ranks must be on this host. The segment's name is gone from /dev/shm before this returns.
base::Result<std::unique_ptr<Backend>> make_shm_backend(const BackendOptions& options, const base::Deadline& deadline);

}  // namespace yoke::comm
