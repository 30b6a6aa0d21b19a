// `yoke profile estimate`: see estimate.h.
#pragma once

#include "yoke/cli/command.h"

namespace yoke::cli {

void add_profile_estimate(CLI::App& group, Action& chosen);

}  // namespace yoke::cli
