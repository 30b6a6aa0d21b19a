#include "yoke/comm/decorate/shaped.h"

#include <algorithm>
#include <deque>

#include "yoke/base/mutex.h"
#include "yoke/base/thread.h"
#include "yoke/comm/decorate/nap.h"

namespace yoke::comm {
namespace {

/// A message that sits in the link until its time has come.
struct Held {
  Held(const Op& what, base::Instant when) : op(what), leaves(when) {}
  const Op op;
  const base::Instant leaves;
  std::unique_ptr<Transfer> transfer = nullptr;  // once it has left
};

class ShapedBackend final : public Backend {
 public:
  ShapedBackend(std::unique_ptr<Backend> inner, int size, LinkShape shape, const base::Clock& clock)
      : size_(size),
        shape_(shape),
        clock_(clock),
        inner_(std::move(inner)),
        thread_("yoke-link", [this](std::stop_token stop) { return work(stop); }) {}

  ~ShapedBackend() override {
    thread_.request_stop();
    base::MutexLock lock(mutex_);
    changed_.notify_all();
  }

  std::string_view name() const override { return inner_->name(); }
  bool takes_device_memory() const override { return inner_->takes_device_memory(); }

  void interrupt() override {
    inner_->interrupt();
    base::MutexLock lock(mutex_);
    interrupted_ = true;
    changed_.notify_all();
  }

  Outcome run(const Op& op, std::uint64_t sequence, const Call& call) override {
    const auto end = clock_.now() + shape_.collective_time(op, size_);
    if (auto trouble = inner_->run(op, sequence, call)) return trouble;
    return nap_until(end, -1, call);
  }

  std::unique_ptr<Transfer> start(const Op& op) override {
    if (op.kind == OpKind::kReceive) return inner_->start(op);
    base::MutexLock lock(mutex_);
    free_at_ = std::max(free_at_, clock_.now()) + shape_.transfer_time(op.bytes());
    auto held = std::make_shared<Held>(op, free_at_ + shape_.latency);
    queue_.push_back(held);
    changed_.notify_all();
    return std::make_unique<HeldTransfer>(*this, std::move(held));
  }

 private:
  class HeldTransfer final : public Transfer {
   public:
    HeldTransfer(ShapedBackend& link, std::shared_ptr<Held> held) : link_(link), held_(std::move(held)) {}
    ~HeldTransfer() override {
      base::MutexLock lock(link_.mutex_);
      std::erase(link_.queue_, held_);
    }
    Outcome wait(const Call& call) override {
      call.wait_for(held_->op.peer);
      if (auto trouble = link_.await_departure(*held_, call)) return trouble;
      return held_->transfer->wait(call);
    }

   private:
    ShapedBackend& link_;
    const std::shared_ptr<Held> held_;
  };

  Outcome await_departure(const Held& held, const Call& call) {
    base::MutexLock lock(mutex_);
    while (!held.transfer) {
      if (interrupted_) return Trouble{.kind = Trouble::Kind::kCancelled, .peer = held.op.peer};
      if (auto ended = call.ended(held.op.peer)) return ended;
      changed_.wait(mutex_, base::Deadline::in(std::min(call.left(), kLongestSleep), clock_));
    }
    return std::nullopt;
  }

  base::Status work(const std::stop_token& stop) {
    base::MutexLock lock(mutex_);
    while (!stop.stop_requested()) {
      if (queue_.empty() || interrupted_) {
        changed_.wait(mutex_, base::Deadline::in(std::chrono::seconds(1), clock_));
      } else if (clock_.now() < queue_.front()->leaves) {
        changed_.wait(mutex_, base::Deadline::at(queue_.front()->leaves));
      } else {
        queue_.front()->transfer = inner_->start(queue_.front()->op);
        queue_.pop_front();
        changed_.notify_all();
      }
    }
    return {};
  }

  const int size_;
  const LinkShape shape_;
  const base::Clock& clock_;
  const std::unique_ptr<Backend> inner_;
  base::Mutex mutex_;
  base::Condition changed_;
  std::deque<std::shared_ptr<Held>> queue_ YOKE_GUARDED_BY(mutex_);
  base::Instant free_at_ YOKE_GUARDED_BY(mutex_){};  // when the link has sent everything it was given
  bool interrupted_ YOKE_GUARDED_BY(mutex_) = false;
  base::Worker thread_;  // last: it uses everything above
};

}  // namespace

base::Duration LinkShape::transfer_time(std::size_t bytes) const {
  return bytes_per_second > 0 ? base::from_seconds(static_cast<double>(bytes) / bytes_per_second) : base::Duration{};
}

base::Duration LinkShape::collective_time(const Op& op, int size) const {
  if (size < 2) return {};
  const int others = size - 1;
  const auto part = op.bytes() / static_cast<std::size_t>(size);
  const auto once_round = others * (latency + transfer_time(part));
  switch (op.kind) {
    case OpKind::kAllReduce:
      return 2 * once_round;
    case OpKind::kReduceScatter:
    case OpKind::kAllGather:
      return once_round;
    case OpKind::kBroadcast:
      return latency + transfer_time(op.bytes());
    case OpKind::kBarrier:
    case OpKind::kSend:
    case OpKind::kReceive:
      return latency;
  }
  return {};
}

std::unique_ptr<Backend> make_shaped_backend(std::unique_ptr<Backend> inner, int size, LinkShape shape,
                                             const base::Clock& clock) {
  return std::make_unique<ShapedBackend>(std::move(inner), size, shape, clock);
}

}  // namespace yoke::comm
