// Chrome trace events, the one timeline format for prediction and measurement, so that both open side by side in
// chrome://tracing or Perfetto. A "process" is a device or rank, a "thread" one of its lanes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/mutex.h"
#include "yoke/base/result.h"

namespace yoke::base {

/// A track of the timeline.
struct TraceTrack {
  int process = 0;
  int thread = 0;
  auto operator<=>(const TraceTrack&) const = default;
};

/// Collects events; any thread may add. Times count from an origin of the caller's choice.
class Trace {
 public:
  void name_process(int process, std::string name);
  void name_thread(TraceTrack track, std::string name);
  /// A bar from `start` lasting `duration`. `detail` shows when the bar is clicked; empty for none.
  void span(TraceTrack track, std::string name, std::string category, Duration start, Duration duration,
            std::string detail = {});
  /// A mark without length.
  void mark(TraceTrack track, std::string name, Duration at);
  /// A value over time, drawn as an area; e.g. memory.
  void counter(int process, std::string name, Duration at, double value);

  std::size_t size() const;
  /// The JSON object format: {"traceEvents": [...]}.
  std::string to_json() const;
  /// The same as one process of a timeline of many: every event belongs to `process`, which has this name and no other.
  std::string to_json_as(int process, std::string_view name) const;
  /// Publishes to_json() atomically.
  Status write(const std::string& path) const;

 private:
  struct Event {
    char phase = 'X';
    TraceTrack track;
    std::string name;
    std::string category;
    Duration start{};
    Duration duration{};
    std::string detail;
    double value = 0;
  };
  void add(Event event);
  static void append(std::string& json, const Event& event, int process);

  mutable Mutex mutex_;
  std::vector<Event> events_ YOKE_GUARDED_BY(mutex_);
};

/// One timeline of several that to_json() or to_json_as() has made, in this order. Input error at a text that is none.
Result<std::string> merge_traces(const std::vector<std::string>& timelines);

}  // namespace yoke::base
