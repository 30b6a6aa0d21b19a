// Several ranks on several hosts: shared memory inside a host, TCP between the first ranks of the hosts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "yoke/comm/join.h"

namespace yoke::comm {

/// `hosts[r]` says where rank r is; ranks of one host may have any numbers, and hosts any number of ranks.
base::Result<std::unique_ptr<Backend>> make_hierarchical_backend(const BackendOptions& options,
                                                                 const std::vector<std::string>& hosts,
                                                                 const base::Deadline& deadline);

}  // namespace yoke::comm
