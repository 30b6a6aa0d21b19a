// The differences between the libtorch of Debian 12 (1.13) and of Debian 13 (2.6), absorbed in one place. Code below
// the torch line includes this instead of asking for a version itself.
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <string>

#define YOKE_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if YOKE_TORCH_AT_LEAST(2, 3)
#define YOKE_ALLOCATE_CONST
#else
#define YOKE_ALLOCATE_CONST const
#endif

namespace yoke::tensor {

/// libtorch's version at build time, e.g. "1.13.1".
inline std::string torch_version() {
  return std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR) + "." +
         std::to_string(TORCH_VERSION_PATCH);
}

/// While it lives, kernels of this thread on the device's kind compute in `type` where that is safe.
class Autocast {
 public:
  Autocast(c10::DeviceType device, at::ScalarType type) : device_(device) { set(true, type); }
  ~Autocast() {
    set(false, at::kFloat);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  void set(bool enabled, at::ScalarType type) const {
#if YOKE_TORCH_AT_LEAST(2, 4)
    if (enabled) at::autocast::set_autocast_dtype(device_, type);
    at::autocast::set_autocast_enabled(device_, enabled);
#else
    if (device_ == c10::DeviceType::CPU) {
      if (enabled) at::autocast::set_autocast_cpu_dtype(type);
      at::autocast::set_cpu_enabled(enabled);
    } else {
      if (enabled) at::autocast::set_autocast_gpu_dtype(type);
      at::autocast::set_enabled(enabled);
    }
#endif
  }
  const c10::DeviceType device_;
};

}  // namespace yoke::tensor
