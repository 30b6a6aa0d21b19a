// Two backends as one: ops on the memory of a device (a GPU) go to the one that can reach it, all others to the other.
#pragma once

#include <memory>

#include "yoke/comm/backend.h"

namespace yoke::comm {

/// Both are of the same ranks.
std::unique_ptr<Backend> make_backend_by_place(std::unique_ptr<Backend> host, std::unique_ptr<Backend> device);

}  // namespace yoke::comm
