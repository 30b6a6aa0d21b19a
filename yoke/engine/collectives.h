// Collectives on tensors, wherever their memory is: on the device's own where the group reaches it, else on a copy in
// the host's.
#pragma once

#include <torch/torch.h>

#include "yoke/comm/group.h"

namespace yoke::engine {

/// The sum over all ranks, of f32.
base::Status all_reduce(const torch::Tensor& floats, comm::Group& group, const base::Deadline& deadline);
/// The root's bytes.
base::Status broadcast(const torch::Tensor& tensor, int root, comm::Group& group, const base::Deadline& deadline);

}  // namespace yoke::engine
