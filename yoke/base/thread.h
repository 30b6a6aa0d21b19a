// A thread whose end can be awaited with a deadline and whose failure is not lost.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "yoke/base/mutex.h"
#include "yoke/base/result.h"

namespace yoke::base {

/// Runs a function in a named thread. What the function throws becomes the result. The destructor asks the function to
/// stop and waits for it, so the function must watch its stop token wherever it waits.
class Worker {
 public:
  using Body = std::function<Status(std::stop_token)>;

  /// `name` shows in debuggers and `top -H` (the first 15 bytes of it).
  Worker(std::string name, Body body);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void request_stop() { thread_.request_stop(); }
  /// The function's result, or nullopt if it still runs at the deadline.
  std::optional<Status> wait(const Deadline& deadline);

 private:
  void finish(Status status);

  Mutex mutex_;
  Condition finished_;
  std::optional<Status> result_ YOKE_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace yoke::base
