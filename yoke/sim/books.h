// The books of a simulated run: what each device did with its time and memory, as the run tells it, and in the end the
// report. The run owns them; one thread. Times are those of the simulation and never go back.
#pragma once

#include <cstddef>
#include <vector>

#include "yoke/plan/schedule.h"
#include "yoke/sim/simulator.h"

namespace yoke::sim {

class Books {
 public:
  /// `record`: with spans and memory over time.
  Books(std::size_t devices, int steps, bool record);

  void count_event() { ++report_.events; }
  /// Something of step `step` is done.
  void step_reached(int step, double now);
  /// Device `d` holds so many bytes more from now on.
  void hold(std::size_t d, double now, double bytes);
  /// For pictures.
  void record(std::size_t d, Span::Track track, const plan::ScheduleOp& op, double begin, double end);

  // The compute stream: it has computed, or it waits. What it waits for decides what the time was.
  void computed(std::size_t d, plan::ScheduleOpKind kind, double seconds);
  bool waits(std::size_t d) const { return devices_[d].waits; }
  void begin_wait(std::size_t d, double now);
  /// For a message that was sent at `sent`: communication from then on.
  void end_wait_for_message(std::size_t d, double now, double sent);
  /// For the reducer stream, as far as that was at work meanwhile.
  void end_wait(std::size_t d, double now);

  // The reducer stream.
  void begin_reduce(std::size_t d, double now) { devices_[d].reduces.begin(now); }
  void end_reduce(std::size_t d, double now) { devices_[d].reduces.end(now); }
  void begin_update(std::size_t d, double now) { devices_[d].updates.begin(now); }
  /// Returns when it began.
  double end_update(std::size_t d, double now) { return devices_[d].updates.end(now); }

  /// At the end of the span, when all compute streams wait.
  SimReport close(double end);

 private:
  /// Time spent on something that is done again and again, one at a time.
  struct Spent {
    double seconds = 0;  // of those that are over
    double since = -1;   // one is under way

    void begin(double now) { since = now; }
    double end(double now);
    double by(double now) const { return seconds + (since >= 0 ? now - since : 0); }
  };

  struct Device {
    bool waits = false;
    double waits_since = 0;
    double reduced_before = 0;  // when it began to wait
    double updated_before = 0;
    Spent reduces;
    Spent updates;
    double bytes = 0;
  };

  void add_wait(std::size_t d, double now, double communication, double update);

  const bool records_;
  std::vector<Device> devices_;
  SimReport report_;
};

}  // namespace yoke::sim
