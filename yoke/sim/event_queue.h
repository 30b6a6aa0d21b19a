// What will happen in a simulated run, and when. The run owns it; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace yoke::sim {

enum class EventKind : std::uint8_t {
  kComputed,   // an op of the compute stream of device `a` is over
  kUpdated,    // an update of the reducer stream of device `a` is over
  kLook,       // something that device `a` waits for may be there
  kMoved,      // transfer `a` may have moved its bytes; its turn is `b`
  kDelivered,  // message `a` is there
  kReduced,    // collective `a` is over
};

struct Event {
  double at = 0;
  std::uint64_t number = 0;  // of equal times, the first announced comes first
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  EventKind kind = EventKind::kLook;

  bool operator>(const Event& other) const { return at != other.at ? at > other.at : number > other.number; }
};

class EventQueue {
 public:
  void order(double at, EventKind kind, std::size_t a, std::uint32_t b = 0) {
    events_.push({at, number_++, static_cast<std::uint32_t>(a), b, kind});
  }
  bool empty() const { return events_.empty(); }
  /// The next one, taken out. Precondition: not empty.
  Event take() {
    const Event event = events_.top();
    events_.pop();
    return event;
  }

 private:
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t number_ = 0;
};

}  // namespace yoke::sim
