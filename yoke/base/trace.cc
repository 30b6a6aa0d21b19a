#include "yoke/base/trace.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "yoke/base/files.h"
#include "yoke/base/json.h"

namespace yoke::base {
namespace {

constexpr std::string_view kHead = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
constexpr std::string_view kTail = "\n]}\n";

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

void Trace::append(std::string& json, const Event& event, int process) {
  auto out = std::back_inserter(json);
  const bool names_something = event.phase == 'P' || event.phase == 'T';
  fmt::format_to(out, "{}\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{}", json.ends_with('[') ? "" : ",",
                 names_something ? 'M' : event.phase, process, event.track.thread);
  if (names_something) {
    fmt::format_to(out, ",\"name\":\"{}\",\"args\":{{\"name\":{}}}}}",
                   event.phase == 'P' ? "process_name" : "thread_name", json_text(event.name));
    return;
  }
  fmt::format_to(out, ",\"name\":{},\"ts\":{}", json_text(event.name), microseconds(event.start));
  if (event.phase == 'X') fmt::format_to(out, ",\"dur\":{}", microseconds(event.duration));
  if (event.phase == 'i') fmt::format_to(out, ",\"s\":\"t\"");
  if (!event.category.empty()) fmt::format_to(out, ",\"cat\":{}", json_text(event.category));
  if (event.phase == 'C') fmt::format_to(out, ",\"args\":{{\"value\":{}}}", event.value);
  if (!event.detail.empty()) fmt::format_to(out, ",\"args\":{{\"detail\":{}}}", json_text(event.detail));
  json += '}';
}

std::string Trace::to_json() const {
  MutexLock lock(mutex_);
  std::string json(kHead);
  for (const Event& event : events_) append(json, event, event.track.process);
  json += kTail;
  return json;
}

std::string Trace::to_json_as(int process, std::string_view name) const {
  MutexLock lock(mutex_);
  std::string json(kHead);
  append(json, {.phase = 'P', .name = std::string(name)}, process);
  for (const Event& event : events_) {
    if (event.phase != 'P') append(json, event, process);
  }
  json += kTail;
  return json;
}

Status Trace::write(const std::string& path) const {
  return publish_file(path, to_json());
}

Result<std::string> merge_traces(const std::vector<std::string>& timelines) {
  std::string merged(kHead);
  for (const std::string_view timeline : timelines) {
    if (!timeline.starts_with(kHead) || !timeline.ends_with(kTail) || timeline.size() < kHead.size() + kTail.size()) {
      return input_error("found text that is no timeline of Yoke's, expected what a rank has written");
    }
    const auto events = timeline.substr(kHead.size(), timeline.size() - kHead.size() - kTail.size());
    if (!events.empty() && !merged.ends_with('[')) merged += ',';
    merged += events;
  }
  merged += kTail;
  return merged;
}

}  // namespace yoke::base
