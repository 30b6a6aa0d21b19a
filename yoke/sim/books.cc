#include "yoke/sim/books.h"

#include <algorithm>
#include <utility>

namespace yoke::sim {

using Kind = plan::ScheduleOpKind;

Books::Books(std::size_t devices, int steps, bool record) : records_(record), devices_(devices) {
  report_.devices.resize(devices);
  report_.step_ends.assign(static_cast<std::size_t>(steps), 0.0);
}

double Books::Spent::end(double now) {
  seconds += now - since;
  return std::exchange(since, -1);
}

void Books::step_reached(int step, double now) {
  double& end = report_.step_ends[static_cast<std::size_t>(step)];
  end = std::max(end, now);
}

void Books::hold(std::size_t d, double now, double bytes) {
  Device& device = devices_[d];
  DeviceReport& report = report_.devices[d];
  device.bytes += bytes;
  report.peak_bytes = std::max(report.peak_bytes, device.bytes);
  if (!records_ || bytes == 0) return;
  if (!report.memory.empty() && report.memory.back().at == now) {
    report.memory.back().bytes = device.bytes;
  } else {
    report.memory.push_back({now, device.bytes});
  }
}

void Books::record(std::size_t d, Span::Track track, const plan::ScheduleOp& op, double begin, double end) {
  if (records_) report_.spans.push_back({static_cast<int>(d), track, op, begin, end});
}

void Books::computed(std::size_t d, Kind kind, double seconds) {
  DeviceReport& report = report_.devices[d];
  switch (kind) {
    case Kind::kLoad:
      report.load += seconds;
      break;
    case Kind::kForward:
      report.forward += seconds;
      break;
    case Kind::kRecompute:
      report.recompute += seconds;
      break;
    case Kind::kBackward:
      report.backward += seconds;
      break;
    default:
      break;
  }
}

void Books::begin_wait(std::size_t d, double now) {
  Device& device = devices_[d];
  device.waits = true;
  device.waits_since = now;
  device.reduced_before = device.reduces.by(now);
  device.updated_before = device.updates.by(now);
}

void Books::end_wait_for_message(std::size_t d, double now, double sent) {
  add_wait(d, now, now - std::max(devices_[d].waits_since, sent), 0);
}

void Books::end_wait(std::size_t d, double now) {
  const Device& device = devices_[d];
  add_wait(d, now, device.reduces.by(now) - device.reduced_before, device.updates.by(now) - device.updated_before);
}

void Books::add_wait(std::size_t d, double now, double communication, double update) {
  Device& device = devices_[d];
  DeviceReport& report = report_.devices[d];
  device.waits = false;
  report.exposed_communication += communication;
  report.exposed_update += update;
  report.bubble += now - device.waits_since - communication - update;
}

SimReport Books::close(double end) {
  report_.seconds = end;
  for (std::size_t d = 0; d < devices_.size(); ++d) end_wait(d, end);
  return std::move(report_);
}

}  // namespace yoke::sim
