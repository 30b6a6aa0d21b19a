#include "yoke/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <new>
#include <string>
#include <utility>

#include "yoke/base/mutex.h"
#include "yoke/base/thread.h"

namespace yoke::data {
namespace {

using base::Error;
using base::ErrorKind;
using base::MutexLock;

base::Result<Batch> load(const Dataset& dataset, const Order& order) {
  try {
    return dataset.load(order.indices, order.draw);
  } catch (const base::Failure& failure) {
    return failure.error();
  } catch (const std::bad_alloc&) {
    return base::infeasible_error(
        fmt::format("not enough memory for {} samples of {}; make the local batch smaller, or load "
                    "fewer batches ahead",
                    order.indices.size(), dataset.info().name));
  } catch (const c10::Error& fault) {
    const std::string text = fault.what_without_backtrace();
    return Error{ErrorKind::kInternal, fmt::format("{}: {}", dataset.info().name, text.substr(0, text.find('\n')))};
  } catch (const std::exception& fault) {
    return Error{ErrorKind::kInternal, fmt::format("{}: {}", dataset.info().name, fault.what())};
  }
}

}  // namespace

/// What the loader, its threads and its tickets share.
struct Loader::Core {
  enum class State { kWaiting, kLoading, kReady, kGone };
  struct Job {
    Order order;
    State state = State::kWaiting;
    std::optional<base::Result<Batch>> result;
  };
  class OrderTicket;

  Core(const Dataset& data, std::size_t most, const base::Clock& time) : dataset(data), capacity(most), clock(time) {}

  /// Each thread does this until the loader closes.
  void work();
  /// A thread begins with this one, whatever the capacity.
  void hurry(const std::shared_ptr<Job>& job) YOKE_REQUIRES(mutex);
  /// The batch is not wanted any more; what there is of it is handed out, to be destroyed without the lock.
  std::optional<base::Result<Batch>> drop(const std::shared_ptr<Job>& job) YOKE_REQUIRES(mutex);

  const Dataset& dataset;
  const std::size_t capacity;
  const base::Clock& clock;
  base::Mutex mutex;
  base::Condition changed;
  std::deque<std::shared_ptr<Job>> waiting YOKE_GUARDED_BY(mutex);
  std::shared_ptr<Job> urgent YOKE_GUARDED_BY(mutex);  // the first of the waiting, if it is being waited for
  std::size_t held YOKE_GUARDED_BY(mutex) = 0;         // loading or ready
  bool closed YOKE_GUARDED_BY(mutex) = false;
  std::vector<std::unique_ptr<base::Worker>> threads;  // the loader's alone
};

void Loader::Core::work() {
  // Every change wakes the threads: the length of one wait does not matter.
  constexpr auto kPatience = std::chrono::minutes(10);
  while (true) {
    std::shared_ptr<Job> job;
    {
      MutexLock lock(mutex);
      while (!closed && (waiting.empty() || (held >= capacity && !urgent))) {
        changed.wait(mutex, base::Deadline::in(kPatience, clock));
      }
      if (closed) return;
      job = std::move(waiting.front());
      waiting.pop_front();
      urgent.reset();
      ++held;
      job->state = State::kLoading;
    }
    std::optional<base::Result<Batch>> result = load(dataset, job->order);
    MutexLock lock(mutex);
    if (job->state == State::kGone) {
      --held;
    } else {
      job->result.swap(result);
      job->state = State::kReady;
    }
    changed.notify_all();
  }
}

void Loader::Core::hurry(const std::shared_ptr<Job>& job) {
  waiting.erase(std::find(waiting.begin(), waiting.end(), job));
  waiting.push_front(job);
  urgent = job;
  changed.notify_all();
}

std::optional<base::Result<Batch>> Loader::Core::drop(const std::shared_ptr<Job>& job) {
  if (job->state == State::kWaiting) waiting.erase(std::find(waiting.begin(), waiting.end(), job));
  if (urgent == job) urgent.reset();
  if (job->state == State::kReady) --held;
  job->state = State::kGone;
  changed.notify_all();
  return std::exchange(job->result, std::nullopt);
}

class Loader::Core::OrderTicket final : public Ticket {
 public:
  OrderTicket(std::shared_ptr<Core> core, std::shared_ptr<Job> job) : core_(std::move(core)), job_(std::move(job)) {}
  ~OrderTicket() override {
    std::optional<base::Result<Batch>> unwanted;
    MutexLock lock(core_->mutex);
    if (job_->state != State::kGone) unwanted = core_->drop(job_);
  }
  OrderTicket(const OrderTicket&) = delete;
  OrderTicket& operator=(const OrderTicket&) = delete;

  base::Result<Batch> take(const base::Deadline& deadline) override {
    MutexLock lock(core_->mutex);
    base::require(job_->state != State::kGone, "a batch was taken twice");
    if (job_->state == State::kWaiting && !core_->closed) core_->hurry(job_);
    bool in_time = true;
    while (in_time && job_->state != State::kReady && !(core_->closed && job_->state == State::kWaiting)) {
      in_time = core_->changed.wait(core_->mutex, deadline);
    }
    const State state = job_->state;
    std::optional<base::Result<Batch>> result = core_->drop(job_);
    if (result) return std::move(*result);
    if (state == State::kWaiting && core_->closed) {
      return Error{ErrorKind::kInternal, "a batch was taken that its loader had not begun when it ended"};
    }
    return base::peer_error(fmt::format(
        "{} samples of {} were not {} when the time was up; is the disk slow, or has the loader too few threads?",
        job_->order.indices.size(), core_->dataset.info().name, state == State::kLoading ? "loaded" : "even begun"));
  }

 private:
  std::shared_ptr<Core> core_;
  std::shared_ptr<Job> job_;
};

Loader::Loader(const Dataset& dataset, const LoaderOptions& options, const base::Clock& clock)
    : core_(std::make_shared<Core>(dataset, options.capacity, clock)) {
  base::require(options.threads >= 1 && options.capacity >= 1,
                fmt::format("a loader of {} threads and {} batches: expected at least 1 of each", options.threads,
                            options.capacity));
  for (int i = 0; i < options.threads; ++i) {
    core_->threads.push_back(std::make_unique<base::Worker>(fmt::format("load-{}", i),
                                                            [core = core_.get()](std::stop_token) -> base::Status {
                                                              core->work();
                                                              return {};
                                                            }));
  }
}

Loader::~Loader() {
  {
    MutexLock lock(core_->mutex);
    core_->closed = true;
    core_->changed.notify_all();
  }
  core_->threads.clear();
}

std::unique_ptr<Ticket> Loader::order(Order order) {
  auto job = std::make_shared<Core::Job>();
  job->order = std::move(order);
  {
    MutexLock lock(core_->mutex);
    core_->waiting.push_back(job);
    core_->changed.notify_all();
  }
  return std::make_unique<Core::OrderTicket>(core_, std::move(job));
}

}  // namespace yoke::data
