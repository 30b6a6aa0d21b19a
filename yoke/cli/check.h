// One line of `yoke doctor`.
#pragma once

#include <string>

namespace yoke::cli {

enum class Health { kOk, kWarning, kFailed };

struct Check {
  std::string name;
  Health health = Health::kOk;
  std::string found;
  std::string advice;  // empty when all is well
};

}  // namespace yoke::cli
