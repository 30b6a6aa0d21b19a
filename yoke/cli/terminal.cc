#include "yoke/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace yoke::cli {
namespace {

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

void start_progress(std::optional<base::Progress>& progress, base::ProgressOptions options, const Context& context) {
  const bool wanted = context.log.enabled(base::LogLevel::kInfo);
  options.style = wanted ? base::progress_style_for(STDERR_FILENO) : base::ProgressStyle::kSilent;
  options.columns = terminal_columns();
  progress.emplace(std::move(options), context.clock, [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  });
}

}  // namespace yoke::cli
