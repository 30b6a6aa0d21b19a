#include "yoke/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "yoke/base/units.h"

namespace yoke::base {
namespace {

std::string format_rate(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.1f}M", per_second / 1e6);
  if (per_second >= 1e4) return fmt::format("{:.1f}k", per_second / 1e3);
  return per_second >= 100 ? fmt::format("{:.0f}", per_second) : fmt::format("{:.1f}", per_second);
}

}  // namespace

ProgressStyle progress_style_for(int file_descriptor) {
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::strcmp(terminal, "dumb") == 0;
  return ::isatty(file_descriptor) == 1 && !dumb ? ProgressStyle::kTerminal : ProgressStyle::kLog;
}

Progress::Progress(ProgressOptions options, const Clock& clock, Writer writer)
    : options_(std::move(options)),
      clock_(clock),
      writer_(std::move(writer)),
      started_(clock.now()),
      shown_(started_),
      total_(options_.total),
      done_(options_.start) {}

void Progress::update(std::int64_t done, std::string_view note) {
  done_ = done;
  const Duration every =
      options_.style == ProgressStyle::kTerminal ? std::chrono::milliseconds(100) : options_.log_every;
  if (!shown_once_ || clock_.now() - shown_ >= every) show(note, false);
}

void Progress::clear() {
  if (options_.style != ProgressStyle::kTerminal || !shown_once_ || finished_) return;
  writer_("\r\x1b[K");
  shown_once_ = false;
}

void Progress::finish(std::string_view note) {
  if (std::exchange(finished_, true)) return;
  show(note, true);
}

void Progress::show(std::string_view note, bool finished) {
  if (options_.style == ProgressStyle::kSilent) return;
  shown_once_ = true;
  shown_ = clock_.now();
  std::string text = line(note, finished);
  if (options_.style == ProgressStyle::kLog) {
    writer_(text + "\n");
    return;
  }
  // Cut rather than wrap: a wrapped line cannot be redrawn. \x1b[K clears what a longer line left behind.
  text.resize(std::min(text.size(), static_cast<std::size_t>(std::max(options_.columns - 1, 20))));
  writer_("\r" + text + "\x1b[K" + (finished ? "\n" : ""));
}

std::string Progress::line(std::string_view note, bool finished) const {
  const double elapsed = to_seconds(clock_.now() - started_);
  const double rate = elapsed > 0 ? static_cast<double>(done_ - options_.start) / elapsed : 0;
  const double share =
      std::clamp(static_cast<double>(done_) / static_cast<double>(std::max<std::int64_t>(1, total_)), 0.0, 1.0);
  std::string text = total_ > 0 ? fmt::format(" {:3.0f}% {}/{} {}", share * 100, done_, total_, options_.unit)
                                : fmt::format(" {} {}", done_, options_.unit);
  if (rate > 0) text += fmt::format(", {} {}/s", format_rate(rate), options_.unit);
  if (finished) {
    text += fmt::format(", took {}", format_seconds(elapsed));
  } else if (total_ > done_ && rate > 0) {
    text += fmt::format(", {} left", format_seconds(static_cast<double>(total_ - done_) / rate));
  }
  if (!note.empty()) text += fmt::format(", {}", note);
  if (total_ > 0 && options_.style == ProgressStyle::kTerminal) {
    // The bar gives way to what stands behind it.
    constexpr int kLeast = 5;
    constexpr int kMost = 20;
    const int frame = static_cast<int>(std::string_view(" []").size());
    const int room = options_.columns - 1 - frame - static_cast<int>(options_.label.size() + text.size());
    const int width = std::clamp(room, kLeast, kMost);
    const int full = static_cast<int>(share * width);
    text.insert(0, fmt::format(" [{:#<{}}{:.<{}}]", "", full, "", width - full));
  }
  return options_.label + text;
}

}  // namespace yoke::base
