// libtorch as `yoke doctor` sees it: torch_check.cc where the build has libtorch, no_torch_check.cc where it has not.
#pragma once

#include <optional>
#include <string>

#include "yoke/base/result.h"

namespace yoke::cli {

/// What to print about libtorch; nullopt when this build has none; an error when it is there and does not work.
base::Result<std::optional<std::string>> describe_torch();

}  // namespace yoke::cli
