// Progress of long work: a bar with rate and time left on a terminal, a line now and then in a log.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "yoke/base/clock.h"

namespace yoke::base {

enum class ProgressStyle {
  kTerminal,  // one line redrawn in place, at most ten times a second
  kLog,       // a line at the start, then every `log_every`, and one at the end
  kSilent,
};

struct ProgressOptions {
  std::string label;           // "profile resnet18"
  std::int64_t total = 0;      // 0: unknown, then there is no bar and no time left
  std::int64_t start = 0;      // done before: counts for the bar, not for the rate
  std::string unit = "steps";  // what is counted
  ProgressStyle style = ProgressStyle::kLog;
  int columns = 80;  // width of the terminal
  Duration log_every = std::chrono::seconds(10);
};

/// kTerminal when the descriptor is a terminal that can redraw a line, else kLog.
ProgressStyle progress_style_for(int file_descriptor);

/// One piece of long work. One thread only.
class Progress {
 public:
  /// Receives text exactly as it is to be written (with \r or \n).
  using Writer = std::function<void(std::string_view text)>;

  /// `clock` must outlive this.
  Progress(ProgressOptions options, const Clock& clock, Writer writer);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` so far; `note` is shown at the end of the line, e.g. "loss 0.42".
  void update(std::int64_t done, std::string_view note = {});
  /// For work that turns out longer or shorter than it seemed.
  void set_total(std::int64_t total) { total_ = total; }
  /// Takes the line off the terminal, so that something else can be printed; the next update draws it again.
  void clear();
  /// The last state, with the whole time; the line stays. Without it a terminal keeps the last bar drawn.
  void finish(std::string_view note = {});

 private:
  std::string line(std::string_view note, bool finished) const;
  void show(std::string_view note, bool finished);

  const ProgressOptions options_;
  const Clock& clock_;
  const Writer writer_;
  const Instant started_;
  Instant shown_;
  std::int64_t total_;
  std::int64_t done_;
  bool shown_once_ = false;
  bool finished_ = false;
};

}  // namespace yoke::base
