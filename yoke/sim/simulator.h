// Executes a schedule in simulated time, by the rules of plan/schedule.h: each device has a compute stream and a
// reducer stream, passes take the time of the costs, messages and all-reduces that of the network, which they share.
// Pure function of its arguments: the same report on every machine, jitter included. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/plan/schedule.h"
#include "yoke/sim/costs.h"
#include "yoke/sim/network.h"

namespace yoke::sim {

struct SimOptions {
  /// Passes take between 1 - jitter and 1 + jitter of their time, evenly drawn for each by its device and place in the
  /// list. 0 <= jitter < 1.
  double jitter = 0;
  std::uint64_t seed = 1;
  bool record = false;  // spans and memory over time, for pictures
};

/// Something a device did: drawn as a bar.
struct Span {
  enum class Track : std::uint8_t { kCompute, kReducer, kNetwork };

  int program = 0;
  Track track = Track::kCompute;
  plan::ScheduleOp op;
  double begin = 0;
  double end = 0;
};

struct MemoryPoint {
  double at = 0;
  double bytes = 0;  // from then on
};

/// Where the seconds of a device went. They add up to those of the span.
struct DeviceReport {
  double load = 0;
  double forward = 0;
  double recompute = 0;
  double backward = 0;
  double exposed_communication = 0;  // it had to wait for messages on their way, or for an all-reduce
  double exposed_update = 0;
  double bubble = 0;  // it waited for others, or had nothing to do
  double peak_bytes = 0;
  std::vector<MemoryPoint> memory;  // if recorded

  double computing() const { return load + forward + recompute + backward; }
};

struct SimReport {
  double seconds = 0;             // of the span: filled and drained
  std::vector<double> step_ends;  // when the last pass and update of each step was done
  std::vector<DeviceReport> devices;
  std::uint64_t events = 0;
  std::vector<Span> spans;  // if recorded, in the order of their ends

  int steps() const { return static_cast<int>(step_ends.size()); }
  double step_seconds() const { return seconds / steps(); }
  /// From one step to the next, the median: filling and draining a pipeline that is not drained in each step are not in
  /// it. Of one step: that step.
  double steady_step_seconds() const;
  // Shares of all devices' time.
  double bubble_share() const;
  double exposed_communication_share() const;
  double computing_share() const;
  double peak_bytes() const;

 private:
  double share(double DeviceReport::*part) const;
};

/// Input error for costs or a network of other devices than the schedule's, or options out of range. The schedule must
/// be one that plan::check() passes: a standstill is a bug, and an internal error.
base::Result<SimReport> simulate(const plan::Schedule& schedule, const Costs& costs, const Network& network,
                                 const SimOptions& options = {});

}  // namespace yoke::sim
