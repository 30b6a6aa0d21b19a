#include "yoke/cli/torch_check.h"

#include <fmt/format.h>

#include "yoke/tensor/self_check.h"

namespace yoke::cli {

base::Result<std::optional<std::string>> describe_torch() {
  YOKE_TRY(const tensor::TorchReport report, tensor::check_torch());
  return std::optional(fmt::format("{}, {} threads, {}", report.version, report.threads,
                                   report.cuda ? "CUDA device found" : "CPU only"));
}

}  // namespace yoke::cli
