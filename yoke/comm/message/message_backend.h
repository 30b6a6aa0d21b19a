// Collectives over messages: direct exchange for small data, rings for large, a tree for broadcast. Deterministic:
// every rank gets the same bits.
#pragma once

#include <memory>

#include "yoke/comm/backend.h"
#include "yoke/comm/message/transport.h"

namespace yoke::comm {

std::unique_ptr<Backend> make_message_backend(int rank, int size, std::unique_ptr<Transport> transport);

}  // namespace yoke::comm
