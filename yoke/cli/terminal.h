// The terminal that progress is shown on: stderr.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "yoke/base/progress.h"
#include "yoke/cli/command.h"

namespace yoke::cli {

/// A progress bar on stderr; silent where the log is too.
void start_progress(std::optional<base::Progress>& progress, base::ProgressOptions options, const Context& context);

}  // namespace yoke::cli
