// Ctrl-C and SIGTERM as a request that is asked about, instead of an end.
#pragma once

namespace yoke::cli {

/// While it lives, SIGINT, SIGTERM and SIGHUP are counted. The process has one set of handlers, so there is one of
/// these at a time; the old handlers are back afterwards. A signal also interrupts a poll() of the thread that gets it.
class StopSignals {
 public:
  enum class Second {
    kCounts,  // whoever asks decides what a second request means
    kEnds,    // it ends the process as if nobody had caught it
  };
  explicit StopSignals(Second second);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// How many requests there were so far. Any thread.
  int count() const;
};

}  // namespace yoke::cli
