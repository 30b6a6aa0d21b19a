#include "yoke/base/thread.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "yoke/base/queue.h"

namespace yoke::base {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const SystemClock kClock;
Deadline soon() {
  return Deadline::in(milliseconds(20), kClock);
}
Deadline later() {
  return Deadline::in(seconds(20), kClock);
}

TEST(Worker, DeliversItsResult) {
  Worker worker("test", [](std::stop_token) -> Status { return input_error("no"); });
  const auto result = worker.wait(later());
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->error().message, "no");
}

TEST(Worker, TurnsWhatItThrowsIntoAnError) {
  Worker worker("test", [](std::stop_token) -> Status { throw std::runtime_error("boom"); });
  const auto result = worker.wait(later());
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->error().kind, ErrorKind::kInternal);
  EXPECT_EQ(result->error().message, "test: boom");
}

TEST(Worker, WaitEndsAtItsDeadline) {
  BoundedQueue<int> never(1);
  Worker worker("test", [&](std::stop_token) -> Status {
    std::optional<int> item;
    never.pop(item, later());
    return {};
  });
  EXPECT_FALSE(worker.wait(soon()).has_value());
  never.close();
  EXPECT_TRUE(worker.wait(later()).has_value());
}

TEST(Worker, StopsWhenAsked) {
  Worker worker("test", [](std::stop_token stop) -> Status {
    while (!stop.stop_requested()) std::this_thread::sleep_for(milliseconds(1));
    return {};
  });
  worker.request_stop();
  EXPECT_TRUE(worker.wait(later()).has_value());
}

TEST(BoundedQueue, KeepsOrderAcrossThreads) {
  BoundedQueue<int> queue(3);
  Worker producer("producer", [&](std::stop_token) -> Status {
    for (int i = 0; i < 1000; ++i) {
      if (queue.push(i, later()) != QueueStatus::kDone) return input_error("push failed");
    }
    queue.close();
    return {};
  });
  std::optional<int> item;
  int expected = 0;
  while (queue.pop(item, later()) == QueueStatus::kDone) EXPECT_EQ(*item, expected++);
  EXPECT_EQ(expected, 1000);
  EXPECT_TRUE(producer.wait(later())->ok());
}

TEST(BoundedQueue, WaitsNoLongerThanItsDeadline) {
  BoundedQueue<int> queue(1);
  std::optional<int> item;
  EXPECT_EQ(queue.pop(item, soon()), QueueStatus::kTimedOut);
  EXPECT_EQ(queue.push(1, soon()), QueueStatus::kDone);
  EXPECT_EQ(queue.push(2, soon()), QueueStatus::kTimedOut);
  EXPECT_EQ(queue.size(), 1U);
}

TEST(BoundedQueue, CloseWakesProducersAndDrainsConsumers) {
  BoundedQueue<int> queue(1);
  ASSERT_EQ(queue.push(1, soon()), QueueStatus::kDone);
  Worker producer("producer", [&](std::stop_token) -> Status {
    if (queue.push(2, later()) != QueueStatus::kClosed) return input_error("expected kClosed");
    return {};
  });
  queue.close();
  EXPECT_TRUE(producer.wait(later())->ok());
  std::optional<int> item;
  EXPECT_EQ(queue.pop(item, soon()), QueueStatus::kDone);
  EXPECT_EQ(queue.pop(item, soon()), QueueStatus::kClosed);
}

}  // namespace
}  // namespace yoke::base
