#include "yoke/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <new>

#include "yoke/base/mutex.h"

namespace yoke::data {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

const base::SystemClock kClock;

base::Deadline soon() {
  return base::Deadline::in(seconds(30), kClock);
}

/// A data set of nothing: a batch is the sum of its indices. Index 1000 + n fails in the n-th way; loading waits while
/// the gate is shut.
class Fake final : public Dataset {
 public:
  const DatasetInfo& info() const override { return info_; }

  base::Result<Batch> load(std::span<const std::int64_t> indices,
                           const std::optional<base::StreamName>& draw) const override {
    {
      base::MutexLock lock(mutex_);
      begun_.push_back(indices[0]);
      changed_.notify_all();
      while (shut_) changed_.wait(mutex_, soon());
    }
    switch (indices[0]) {
      case 1000:
        return base::input_error("damaged", {.file = "a.jpg"});
      case 1001:
        throw std::bad_alloc();
      case 1002:
        TORCH_CHECK(false, "libtorch is unhappy");
      case 1003:
        throw std::runtime_error("anything");
      case 1004:
        base::require(false, "a bug");
      default:
        break;
    }
    Batch batch{.samples = 0};
    for (const std::int64_t index : indices) batch.samples += index;
    if (draw) batch.skipped = static_cast<std::int64_t>(draw->step);
    return batch;
  }

  void shut(bool shut) {
    base::MutexLock lock(mutex_);
    shut_ = shut;
    changed_.notify_all();
  }
  /// The first index of every batch that was begun, once there are so many.
  std::vector<std::int64_t> begun(std::size_t count) const {
    base::MutexLock lock(mutex_);
    while (begun_.size() < count && changed_.wait(mutex_, soon())) {
    }
    return begun_;
  }

 private:
  DatasetInfo info_{.name = "fake"};
  mutable base::Mutex mutex_;
  mutable base::Condition changed_;
  mutable std::vector<std::int64_t> begun_ YOKE_GUARDED_BY(mutex_);
  bool shut_ YOKE_GUARDED_BY(mutex_) = false;
};

Order order_of(std::int64_t index) {
  return {.indices = {index}};
}

/// Long enough for a thread to begin what it should not.
void pause() {
  std::this_thread::sleep_for(milliseconds(30));
}

TEST(Loader, BatchesAreThoseOrdered) {
  const Fake dataset;
  for (const int threads : {1, 3}) {
    Loader loader(dataset, {.threads = threads, .capacity = 4}, kClock);
    std::vector<std::unique_ptr<Ticket>> tickets;
    for (std::int64_t i = 0; i < 200; ++i) {
      tickets.push_back(loader.order({{i, 2 * i}, base::StreamName{.step = static_cast<std::uint64_t>(i)}}));
    }
    for (std::int64_t i = 0; i < 200; ++i) {
      const Batch batch = tickets[static_cast<std::size_t>(i)]->take(soon()).value();
      EXPECT_EQ(batch.samples, 3 * i);
      EXPECT_EQ(batch.skipped, i) << "the stream did not arrive";
    }
  }
}

TEST(Loader, BegunInOrderAndNoFurtherThanTheCapacity) {
  const Fake dataset;
  Loader loader(dataset, {.threads = 2, .capacity = 3}, kClock);
  std::vector<std::unique_ptr<Ticket>> tickets;
  for (std::int64_t i = 0; i < 6; ++i) tickets.push_back(loader.order(order_of(i)));
  dataset.begun(3);
  pause();
  EXPECT_THAT(dataset.begun(3), ::testing::UnorderedElementsAre(0, 1, 2));
  EXPECT_EQ(tickets[0]->take(soon()).value().samples, 0);
  dataset.begun(4);
  pause();
  EXPECT_THAT(dataset.begun(4), ::testing::UnorderedElementsAre(0, 1, 2, 3));
}

TEST(Loader, TakenInAnyOrder) {
  const Fake dataset;
  Loader loader(dataset, {.threads = 2, .capacity = 2}, kClock);
  std::vector<std::unique_ptr<Ticket>> tickets;
  for (std::int64_t i = 0; i < 20; ++i) tickets.push_back(loader.order(order_of(i)));
  for (std::int64_t i = 20; i-- > 0;) EXPECT_EQ(tickets[static_cast<std::size_t>(i)]->take(soon()).value().samples, i);
}

TEST(Loader, ADroppedTicketIsNotLoadedAndMakesRoom) {
  const Fake dataset;
  Loader loader(dataset, {.threads = 1, .capacity = 1}, kClock);
  auto first = loader.order(order_of(1));
  dataset.begun(1);
  auto second = loader.order(order_of(2));
  auto third = loader.order(order_of(3));
  second.reset();  // waits
  first.reset();   // ready, or about to be
  EXPECT_EQ(third->take(soon()).value().samples, 3);
  EXPECT_THAT(dataset.begun(2), ::testing::ElementsAre(1, 3));
}

TEST(Loader, ATicketDroppedWhileItsBatchIsLoaded) {
  Fake dataset;
  dataset.shut(true);
  Loader loader(dataset, {.threads = 1, .capacity = 1}, kClock);
  auto first = loader.order(order_of(1));
  dataset.begun(1);
  first.reset();
  auto second = loader.order(order_of(2));
  dataset.shut(false);
  EXPECT_EQ(second->take(soon()).value().samples, 2);
}

TEST(Loader, WhatGoesWrongArrivesWithTheBatch) {
  const Fake dataset;
  Loader loader(dataset, {.threads = 1}, kClock);
  const auto error_of = [&](std::int64_t index) { return loader.order(order_of(index))->take(soon()).error(); };
  EXPECT_EQ(error_of(1000), base::input_error("damaged", {.file = "a.jpg"}));
  EXPECT_EQ(error_of(1001).kind, base::ErrorKind::kInfeasible);
  EXPECT_THAT(error_of(1001).to_string(), HasSubstr("not enough memory for 1 samples of fake"));
  EXPECT_EQ(error_of(1002), (base::Error{base::ErrorKind::kInternal, "fake: libtorch is unhappy"}));
  EXPECT_EQ(error_of(1003), (base::Error{base::ErrorKind::kInternal, "fake: anything"}));
  EXPECT_THAT(error_of(1004).to_string(), HasSubstr("a bug"));
  EXPECT_EQ(loader.order(order_of(5))->take(soon()).value().samples, 5) << "it goes on";
}

TEST(Loader, TheDeadlineIsKept) {
  Fake dataset;
  dataset.shut(true);
  Loader loader(dataset, {.threads = 1}, kClock);
  auto loading = loader.order(order_of(1));
  auto waiting = loader.order(order_of(2));
  dataset.begun(1);
  const auto late = loading->take(base::Deadline::in(milliseconds(10), kClock));
  EXPECT_EQ(late.error().kind, base::ErrorKind::kPeer);
  EXPECT_THAT(late.error().message, HasSubstr("1 samples of fake were not loaded when the time was up"));
  EXPECT_THAT(waiting->take(base::Deadline::in(milliseconds(10), kClock)).error().message,
              HasSubstr("1 samples of fake were not even begun"));
  EXPECT_THROW(static_cast<void>(waiting->take(soon())), base::Failure) << "at most once";
  dataset.shut(false);
  EXPECT_EQ(loader.order(order_of(3))->take(soon()).value().samples, 3);
}

TEST(Loader, EndsWithOrdersThatNobodyTook) {
  const Fake dataset;
  std::vector<std::unique_ptr<Ticket>> tickets;
  {
    Loader loader(dataset, {.threads = 2, .capacity = 2}, kClock);
    for (std::int64_t i = 0; i < 10; ++i) tickets.push_back(loader.order(order_of(i)));
    dataset.begun(2);
  }
  EXPECT_THAT(dataset.begun(2), ::testing::UnorderedElementsAre(0, 1));
  EXPECT_EQ(tickets[1]->take(soon()).value().samples, 1) << "it was ready";
  EXPECT_THAT(tickets[9]->take(soon()).error().message, HasSubstr("its loader had not begun"));
}

TEST(Loader, RefusesNoThreadsAndNoCapacity) {
  const Fake dataset;
  EXPECT_THROW(Loader(dataset, {.threads = 0}, kClock), base::Failure);
  EXPECT_THROW(Loader(dataset, {.capacity = 0}, kClock), base::Failure);
}

}  // namespace
}  // namespace yoke::data
