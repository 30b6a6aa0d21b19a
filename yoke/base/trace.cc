#include "yoke/base/trace.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "yoke/base/files.h"
#include "yoke/base/json.h"

namespace yoke::base {
namespace {

/// Chrome counts in microseconds; three decimals keep our nanoseconds whole.
std::string microseconds(Duration time) {
  const auto ns = time.count();
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

}  // namespace

void Trace::add(Event event) {
  MutexLock lock(mutex_);
  events_.push_back(std::move(event));
}

void Trace::name_process(int process, std::string name) {
  add({.phase = 'P', .track = {process, 0}, .name = std::move(name)});
}

void Trace::name_thread(TraceTrack track, std::string name) {
  add({.phase = 'T', .track = track, .name = std::move(name)});
}

void Trace::span(TraceTrack track, std::string name, std::string category, Duration start, Duration duration,
                 std::string detail) {
  add({.phase = 'X',
       .track = track,
       .name = std::move(name),
       .category = std::move(category),
       .start = start,
       .duration = duration,
       .detail = std::move(detail)});
}

void Trace::mark(TraceTrack track, std::string name, Duration at) {
  add({.phase = 'i', .track = track, .name = std::move(name), .start = at});
}

void Trace::counter(int process, std::string name, Duration at, double value) {
  add({.phase = 'C', .track = {process, 0}, .name = std::move(name), .start = at, .value = value});
}

std::size_t Trace::size() const {
  MutexLock lock(mutex_);
  return events_.size();
}

std::string Trace::to_json() const {
  MutexLock lock(mutex_);
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  auto out = std::back_inserter(json);
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const Event& event = events_[i];
    const bool names_something = event.phase == 'P' || event.phase == 'T';
    fmt::format_to(out, "{}\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{}", i == 0 ? "" : ",",
                   names_something ? 'M' : event.phase, event.track.process, event.track.thread);
    if (names_something) {
      fmt::format_to(out, ",\"name\":\"{}\",\"args\":{{\"name\":{}}}}}",
                     event.phase == 'P' ? "process_name" : "thread_name", json_text(event.name));
      continue;
    }
    fmt::format_to(out, ",\"name\":{},\"ts\":{}", json_text(event.name), microseconds(event.start));
    if (event.phase == 'X') fmt::format_to(out, ",\"dur\":{}", microseconds(event.duration));
    if (event.phase == 'i') fmt::format_to(out, ",\"s\":\"t\"");
    if (!event.category.empty()) fmt::format_to(out, ",\"cat\":{}", json_text(event.category));
    if (event.phase == 'C') fmt::format_to(out, ",\"args\":{{\"value\":{}}}", event.value);
    if (!event.detail.empty()) fmt::format_to(out, ",\"args\":{{\"detail\":{}}}", json_text(event.detail));
    json += '}';
  }
  json += "\n]}\n";
  return json;
}

Status Trace::write(const std::string& path) const {
  return publish_file(path, to_json());
}

}  // namespace yoke::base
