// `yoke profile sync`: every node's profiles on every node.
#pragma once

#include "yoke/cli/command.h"

namespace yoke::cli {

void add_profile_sync(CLI::App& group, Action& chosen);

}  // namespace yoke::cli
