#include "yoke/cli/torch_check.h"

namespace yoke::cli {

base::Result<std::optional<std::string>> describe_torch() {
  return std::optional<std::string>();
}

}  // namespace yoke::cli
