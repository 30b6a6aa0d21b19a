#include "yoke/tensor/self_check.h"

#include <fmt/format.h>

#include "yoke/tensor/compat.h"

namespace yoke::tensor {

base::Result<TorchReport> check_torch() {
  try {
    // d/dx sum((x W)^2) = 2 x W W^T; with W = 2 I that is 8 x.
    const auto x = torch::arange(1, 7, torch::kFloat32).view({2, 3}).set_requires_grad(true);
    const auto w = 2 * torch::eye(3);
    x.matmul(w).square().sum().backward();
    const double error = (x.grad() - 8 * x.detach()).abs().max().item<double>();
    if (error != 0) return base::peer_error(fmt::format("libtorch computes a wrong gradient (off by {})", error));
    return TorchReport{
        .version = torch_version(), .threads = torch::get_num_threads(), .cuda = torch::cuda::is_available()};
  } catch (const c10::Error& fault) {
    return base::peer_error(fmt::format("libtorch fails: {}", fault.what_without_backtrace()));
  }
}

}  // namespace yoke::tensor
