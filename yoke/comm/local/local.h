// Ranks that are threads of one process. For tests, and for jobs that emulate several devices in one process.
#pragma once

#include <memory>

#include "yoke/comm/join.h"

namespace yoke::comm {

/// All ranks must be in this process; `options.name` brings them together.
base::Result<std::unique_ptr<Backend>> make_local_backend(const BackendOptions& options,
                                                          const base::Deadline& deadline);

}  // namespace yoke::comm
