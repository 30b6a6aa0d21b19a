// Stands in for cuda_device.cc where libtorch has no CUDA.
#include "yoke/base/error.h"
#include "yoke/tensor/device.h"

namespace yoke::tensor {

int cuda_device_count() {
  return 0;
}

std::unique_ptr<Device> make_cuda_device(int /*index*/) {
  throw base::Failure(base::input_error("this build has no CUDA"));
}

void select_cuda_device(int /*index*/) {
  throw base::Failure(base::input_error("this build has no CUDA"));
}

}  // namespace yoke::tensor
