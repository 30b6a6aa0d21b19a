#include "yoke/comm/gloo/gloo.h"

namespace yoke::comm {

base::Result<std::unique_ptr<Backend>> make_gloo_backend(const BackendOptions&, const base::Deadline&) {
  return base::input_error("this build has no gloo; install libgloo-dev and configure with -DYOKE_GLOO=ON");
}

BackendInfo gloo_info() {
  return {.name = "gloo", .available = false, .detail = "built without libgloo (Debian: libgloo-dev)"};
}

}  // namespace yoke::comm
