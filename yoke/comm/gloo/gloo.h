// Messages over TCP by libgloo. gloo.cc where the library is there, no_gloo.cc where it is not.
#pragma once

#include <memory>

#include "yoke/comm/join.h"

namespace yoke::comm {

/// Connects every rank with every other; addresses travel through the store.
base::Result<std::unique_ptr<Backend>> make_gloo_backend(const BackendOptions& options, const base::Deadline& deadline);
BackendInfo gloo_info();

}  // namespace yoke::comm
