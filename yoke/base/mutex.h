// std::mutex and std::condition_variable with clang's thread-safety annotations, so that the compiler proves which
// lock guards which field (the `clang` preset turns a violation into an error). Waits always have a deadline.
#pragma once

#include <condition_variable>
#include <mutex>

#include "yoke/base/clock.h"

#if defined(__clang__)
#define YOKE_ATTRIBUTE(x) __attribute__((x))
#else
#define YOKE_ATTRIBUTE(x)
#endif
#define YOKE_GUARDED_BY(mutex) YOKE_ATTRIBUTE(guarded_by(mutex))
#define YOKE_REQUIRES(mutex) YOKE_ATTRIBUTE(requires_capability(mutex))

namespace yoke::base {

class YOKE_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() YOKE_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() YOKE_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

/// Holds a Mutex for a scope.
class YOKE_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) YOKE_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() YOKE_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Wakes waiters. A wait may end early, so it stands in a loop over what it waits for:
///   while (!ready_) { if (!changed_.wait(mutex_, deadline)) return timeout; }
class Condition {
 public:
  /// False once the deadline has passed. Deadlines are on the system's steady clock.
  bool wait(Mutex& mutex, const Deadline& deadline) YOKE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const auto status = condition_.wait_until(lock, deadline.instant());
    lock.release();  // the caller's MutexLock goes on owning it
    return status == std::cv_status::no_timeout;
  }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace yoke::base
