// A bounded queue between threads. Every operation has a deadline, and close() wakes everyone.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "yoke/base/clock.h"
#include "yoke/base/mutex.h"

namespace yoke::base {

enum class QueueStatus { kDone, kTimedOut, kClosed };

/// Any number of producers and consumers. Items come out in the order they went in.
template <typename T>
class BoundedQueue {
 public:
  /// Precondition: capacity > 0.
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  /// Waits for room. kClosed and kTimedOut leave `item` unqueued (it is destroyed).
  QueueStatus push(T item, const Deadline& deadline) {
    MutexLock lock(mutex_);
    while (!closed_ && items_.size() >= capacity_) {
      if (!changed_.wait(mutex_, deadline) && !closed_ && items_.size() >= capacity_) return QueueStatus::kTimedOut;
    }
    if (closed_) return QueueStatus::kClosed;
    items_.push_back(std::move(item));
    changed_.notify_all();
    return QueueStatus::kDone;
  }

  /// Waits for an item and moves it into `item`. After close() the items left are still handed out, then kClosed.
  QueueStatus pop(std::optional<T>& item, const Deadline& deadline) {
    MutexLock lock(mutex_);
    while (!closed_ && items_.empty()) {
      if (!changed_.wait(mutex_, deadline) && !closed_ && items_.empty()) return QueueStatus::kTimedOut;
    }
    if (items_.empty()) return QueueStatus::kClosed;
    item = std::move(items_.front());
    items_.pop_front();
    changed_.notify_all();
    return QueueStatus::kDone;
  }

  /// No more items; waiting producers and consumers return. May be called twice.
  void close() {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  std::size_t size() const {
    MutexLock lock(mutex_);
    return items_.size();
  }

 private:
  const std::size_t capacity_;
  mutable Mutex mutex_;
  Condition changed_;
  std::deque<T> items_ YOKE_GUARDED_BY(mutex_);
  bool closed_ YOKE_GUARDED_BY(mutex_) = false;
};

}  // namespace yoke::base
