#include "yoke/comm/nccl/nccl.h"

namespace yoke::comm {

base::Result<std::unique_ptr<Backend>> make_nccl_backend(const BackendOptions&, const base::Deadline&) {
  return base::input_error("this build has no NCCL; install the CUDA toolkit with NCCL and build the preset `nccl`");
}

BackendInfo nccl_info() {
  return {.name = "nccl", .available = false, .detail = "built without NCCL (preset nccl builds it)"};
}

}  // namespace yoke::comm
