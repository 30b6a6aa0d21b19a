// The differences between the libtorch of Debian 12 (1.13) and of Debian 13 (2.6), absorbed in one place. Code below
// the torch line includes this instead of asking for a version itself.
#pragma once

#include <torch/torch.h>
#include <torch/version.h>

#include <string>

namespace yoke::tensor {

/// libtorch's version at build time, e.g. "1.13.1".
inline std::string torch_version() {
  return std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR) + "." +
         std::to_string(TORCH_VERSION_PATCH);
}

}  // namespace yoke::tensor
