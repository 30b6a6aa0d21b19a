#include "yoke/comm/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>

#include "yoke/base/mutex.h"
#include "yoke/base/thread.h"
#include "yoke/base/units.h"
#include "yoke/comm/backend.h"
#include "yoke/comm/monitor.h"

namespace yoke::comm {

std::string Membership::describe(int of) const {
  if (of < 0 || of >= static_cast<int>(labels.size())) return fmt::format("rank {}", of);
  return fmt::format("rank {} ({})", of, labels[static_cast<std::size_t>(of)]);
}

/// Guarded by the group's mutex but for the transfer, which belongs to the thread that waits for it.
struct Handle::State {
  State(Group::Core& group_core, const Op& what, const base::Deadline& by) : core(group_core), op(what), deadline(by) {}

  Group::Core& core;
  const Op op;
  const base::Deadline deadline;
  std::unique_ptr<Transfer> transfer = nullptr;  // of a message
  bool waited_for = false;                       // a thread is in transfer->wait()
  std::optional<base::Status> result = std::nullopt;
};

struct Group::Core {
  Core(Membership membership, std::unique_ptr<Backend> mover, std::unique_ptr<Store> watch, std::unique_ptr<Store> post,
       const base::Clock& time, Regroup make_subgroup)
      : members(std::move(membership)),
        clock(time),
        regroup(std::move(make_subgroup)),
        backend(std::move(mover)),
        monitor(std::make_unique<Monitor>(members, std::move(watch), std::move(post), clock,
                                          Monitor::Ears{.state = [this] { return state(); },
                                                        .left = [this](const Notice& notice) { on_left(notice); },
                                                        .failed = [this](const Verdict& verdict) { fail(verdict); }})) {
  }

  ~Core() {
    bool known = false;  // whether the others expect this rank's end
    {
      base::MutexLock lock(mutex);
      known = failure.has_value() && !closed;
      // Whatever is still queued ends with this.
      if (!failure) failure = GroupFailure{.ranks = {}, .error = base::input_error("the group was destroyed")};
      closed = true;
      changed.notify_all();
    }
    // A store that is gone does not announce anything either.
    if (known) (void)monitor->withdraw_will();
    cancelled.store(true, std::memory_order_release);
    backend->interrupt();
    worker.reset();
    monitor.reset();
    messages.clear();
  }

  /// What this rank is doing, for the others.
  Notice state() {
    base::MutexLock lock(mutex);
    Notice notice{.kind = NoticeKind::kState, .rank = members.rank, .sequence = called, .peer = waits_for.load()};
    if (!peers.empty()) notice.peer = peers.front();
    if (doing) notice.op = doing->what.to_string();
    return notice;
  }

  void begin_waiting(int peer) {
    base::MutexLock lock(mutex);
    peers.push_back(peer);
  }
  void end_waiting(int peer) {
    base::MutexLock lock(mutex);
    peers.erase(std::ranges::find(peers, peer));
  }

  void on_left(const Notice& notice) {
    bool needed = false;
    {
      base::MutexLock lock(mutex);
      left.push_back(notice);
      needed = doing && doing->what.sequence > notice.sequence;
    }
    if (needed) fail(has_left(notice));
  }

  Verdict has_left(const Notice& notice) const {
    return {.ranks = {notice.rank}, .cause = members.describe(notice.rank) + " has left the group"};
  }

  /// The first verdict is final. Callers get to know it only once the backend has let go of their memory.
  void fail(const Verdict& verdict) {
    if (cancelled.exchange(true)) return;
    backend->interrupt();
    base::MutexLock lock(mutex);
    if (!failure) failure = GroupFailure{.ranks = verdict.ranks, .error = base::peer_error(message(verdict))};
    changed.notify_all();
  }

  std::string message(const Verdict& verdict) const YOKE_REQUIRES(mutex) {
    const std::string group = fmt::format("group `{}`, {}", members.name, members.describe(members.rank));
    const auto& failed = doing ? doing : ahead;
    if (!failed) return fmt::format("{}: {}", group, verdict.cause);
    return fmt::format("{}: {} failed after {}: {}", group, failed->what.to_string(),
                       base::format_seconds(base::to_seconds(clock.now() - failed->since)), verdict.cause);
  }

  base::Status check(const Op& op) {
    if (op.data == nullptr && op.bytes() > 0) {
      return base::input_error(
          fmt::format("{} of {} {} without memory", to_string(op.kind), op.count, comm::to_string(op.dtype)));
    }
    const bool has_peer = op.is_message() || op.kind == OpKind::kBroadcast;
    if (has_peer && (op.peer < 0 || op.peer >= members.size || (op.is_message() && op.peer == members.rank))) {
      return base::input_error(fmt::format("{} with rank {}; expected {}rank from 0 to {}", to_string(op.kind), op.peer,
                                           op.is_message() ? "another " : "a ", members.size - 1));
    }
    base::MutexLock lock(mutex);
    if (closed)
      return base::input_error(fmt::format("group `{}` was closed before this {}", members.name, to_string(op.kind)));
    if (!failure) return {};
    drop_messages();
    return failure->error;
  }

  enum class Waited : std::uint8_t { kCollective, kMessage, kAhead };

  base::Status collective(const Op& op, const base::Deadline& deadline) {
    std::optional<Notice> gone;
    std::uint64_t sequence = 0;
    {
      base::MutexLock lock(mutex);
      if (failure) return failure->error;
      sequence = ++called;
      doing = Doing{signature_of(op, sequence), clock.now()};
      const auto found = std::ranges::find_if(left, [&](const auto& notice) { return notice.sequence < sequence; });
      if (found != left.end()) gone = *found;
    }
    if (gone) fail(has_left(*gone));
    waits_for.store(-1, std::memory_order_relaxed);
    const auto trouble = backend->run(op, sequence, Call(deadline, clock, cancelled, waits_for));
    base::Status result = trouble ? explain(*trouble, Waited::kCollective) : base::Status{};
    waits_for.store(-1, std::memory_order_relaxed);
    base::MutexLock lock(mutex);
    doing.reset();
    return result;
  }

  base::Status message_end(Handle::State& state, Waited how) {
    const bool needed = how == Waited::kMessage;
    {
      base::MutexLock lock(mutex);
      if (state.result) return *state.result;
      auto& own = needed ? doing : ahead;
      if (!own) own = Doing{signature_of(state.op, 0), clock.now()};
      if (needed) peers.push_back(state.op.peer);
      state.waited_for = true;
    }
    std::atomic<int> peer{state.op.peer};
    const auto trouble = state.transfer->wait(Call(state.deadline, clock, cancelled, peer));
    base::Status result = trouble ? explain(*trouble, how) : base::Status{};
    if (needed) end_waiting(state.op.peer);
    base::MutexLock lock(mutex);
    auto& own = needed ? doing : ahead;
    if (own && own->what.sequence == 0) own.reset();
    state.result = result;
    state.waited_for = false;
    if (trouble) {
      drop_messages();
    } else {
      std::erase_if(messages, [&](const auto& message) { return message.get() == &state; });
    }
    return result;
  }

  /// Before a caller hears of a failure the backend lets go of all memory: it may be freed at once, also that of
  /// messages nobody will wait for any more. A message that another thread is waiting for is left to that thread, which
  /// comes here too.
  void drop_messages() YOKE_REQUIRES(mutex) {
    std::erase_if(messages, [this](const auto& message) YOKE_REQUIRES(mutex) {
      if (message->waited_for) return false;
      if (!message->result) message->result = failure->error;
      message->transfer.reset();
      return true;
    });
  }
  base::Status told(base::Status status) {
    base::MutexLock lock(mutex);
    if (failure) drop_messages();
    return status;
  }

  /// Trouble here becomes a verdict that all ranks share.
  base::Status explain(const Trouble& trouble, Waited how) {
    if (trouble.kind != Trouble::Kind::kCancelled) {
      Notice notice = state();
      notice.kind = NoticeKind::kTrouble;
      notice.trouble = trouble.kind;
      notice.message = how != Waited::kCollective;
      notice.text = trouble.detail;
      const bool late = trouble.kind == Trouble::Kind::kTimedOut;
      if (trouble.peer >= 0 && !(late && how == Waited::kAhead)) notice.peer = trouble.peer;
      monitor->tell(notice);
    }
    {
      base::MutexLock lock(mutex);
      const auto patience = base::Deadline::in(Monitor::kPatience + std::chrono::seconds(1), clock);
      while (!failure && changed.wait(mutex, patience)) {
      }
      if (failure) return failure->error;
    }
    // The monitor cannot tell, so it has to be what this rank saw itself.
    fail({.ranks = trouble.peer >= 0 ? std::vector{trouble.peer} : std::vector<int>{},
          .cause = trouble.peer >= 0 ? fmt::format("{}: {}", members.describe(trouble.peer), trouble.detail)
                                     : trouble.detail});
    base::MutexLock lock(mutex);
    while (!failure) changed.wait(mutex, base::Deadline::in(std::chrono::seconds(1), clock));  // set by who was first
    return failure->error;
  }

  /// The thread that runs launched collectives, in order.
  base::Status work(const std::stop_token& stop) {
    for (;;) {
      std::shared_ptr<Handle::State> next;
      {
        base::MutexLock lock(mutex);
        while (queue.empty() && !stop.stop_requested() && !closed) {
          changed.wait(mutex, base::Deadline::in(std::chrono::seconds(1), clock));
        }
        if (queue.empty()) return {};
        next = queue.front();
      }
      auto result = collective(next->op, next->deadline);
      base::MutexLock lock(mutex);
      queue.pop_front();
      next->result = std::move(result);
      changed.notify_all();
    }
  }

  struct Doing {
    Signature what;
    base::Instant since;
  };

  const Membership members;
  const base::Clock& clock;
  const Regroup regroup;
  std::atomic<bool> cancelled{false};
  std::atomic<int> waits_for{-1};

  base::Mutex mutex;
  base::Condition changed;
  std::optional<GroupFailure> failure YOKE_GUARDED_BY(mutex);
  std::optional<Doing> doing YOKE_GUARDED_BY(mutex);  // the collective, or else the message, that is waited for
  std::optional<Doing> ahead YOKE_GUARDED_BY(mutex);  // the message that is waited for ahead of need
  std::vector<int> peers YOKE_GUARDED_BY(mutex);      // whose messages are waited for
  std::vector<Notice> left YOKE_GUARDED_BY(mutex);    // ranks that have closed their group
  std::uint64_t called YOKE_GUARDED_BY(mutex) = 0;    // collectives so far
  std::deque<std::shared_ptr<Handle::State>> queue YOKE_GUARDED_BY(mutex);      // launched, the first one running
  std::vector<std::shared_ptr<Handle::State>> messages YOKE_GUARDED_BY(mutex);  // started, not waited for
  bool closed YOKE_GUARDED_BY(mutex) = false;

  // What follows has threads that use what is above.
  const std::unique_ptr<Backend> backend;
  std::unique_ptr<Monitor> monitor;
  std::unique_ptr<base::Worker> worker;  // from the first launch on; the owner's thread only
};

base::Status Handle::wait() {
  Group::Core& core = state_->core;
  if (state_->op.is_message()) return core.message_end(*state_, Group::Core::Waited::kMessage);
  base::MutexLock lock(core.mutex);
  // Whoever runs the op has a deadline and delivers in any case: this loop ends.
  while (!state_->result) core.changed.wait(core.mutex, base::Deadline::in(std::chrono::seconds(1), core.clock));
  if (core.failure) core.drop_messages();
  return *state_->result;
}

base::Status Handle::wait_ahead() {
  base::require(state_->op.is_message(), "only messages are waited for ahead");
  return state_->core.message_end(*state_, Group::Core::Waited::kAhead);
}

Waiting::Waiting(Group& group, int peer) : core_(*group.core_), peer_(peer) {
  core_.begin_waiting(peer_);
}

Waiting::~Waiting() {
  core_.end_waiting(peer_);
}

Group::Group(Membership membership, std::unique_ptr<Backend> backend, std::unique_ptr<Store> watch,
             std::unique_ptr<Store> post, const base::Clock& clock, Regroup regroup)
    : core_(std::make_unique<Core>(std::move(membership), std::move(backend), std::move(watch), std::move(post), clock,
                                   std::move(regroup))) {}

Group::~Group() = default;

int Group::rank() const {
  return core_->members.rank;
}

int Group::size() const {
  return core_->members.size;
}

const std::string& Group::name() const {
  return core_->members.name;
}

std::string_view Group::backend() const {
  return core_->backend->name();
}

bool Group::takes_device_memory() const {
  return core_->backend->takes_device_memory();
}

base::Result<std::unique_ptr<Group>> Group::subgroup(const std::string& name, const std::vector<int>& ranks,
                                                     const base::Deadline& deadline) {
  base::require(core_->regroup != nullptr, "a subgroup of a group that was not joined");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= size() ||
        std::find(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(i), ranks[i]) !=
            ranks.begin() + static_cast<std::ptrdiff_t>(i)) {
      return base::input_error(
          fmt::format("rank {} in subgroup `{}` of group `{}`; expected ranks from 0 to {}, each "
                      "once",
                      ranks[i], name, core_->members.name, size() - 1));
    }
  }
  if (std::ranges::find(ranks, rank()) == ranks.end()) {
    return base::input_error(
        fmt::format("rank {} asks for subgroup `{}` of other ranks; only its members may", rank(), name));
  }
  return core_->regroup(name, ranks, deadline);
}

base::Status Group::run(const Op& op, const base::Deadline& deadline) {
  bool alone = !op.is_message();
  if (alone) {
    base::MutexLock lock(core_->mutex);
    alone = core_->queue.empty();
  }
  if (!alone) return launch(op, deadline).wait();
  YOKE_CHECK(core_->check(op));
  return core_->told(core_->collective(op, deadline));
}

Handle Group::launch(const Op& op, const base::Deadline& deadline) {
  Handle handle;
  handle.state_ = std::make_shared<Handle::State>(*core_, op, deadline);
  auto checked = core_->check(op);
  if (!checked.ok()) {
    handle.state_->result = std::move(checked);
    return handle;
  }
  if (op.is_message()) {
    handle.state_->transfer = core_->backend->start(op);
    base::MutexLock lock(core_->mutex);
    core_->messages.push_back(handle.state_);
    return handle;
  }
  if (!core_->worker) {
    core_->worker = std::make_unique<base::Worker>(
        "yoke-comm", [core = core_.get()](std::stop_token stop) { return core->work(stop); });
  }
  base::MutexLock lock(core_->mutex);
  core_->queue.push_back(handle.state_);
  core_->changed.notify_all();
  return handle;
}

void Group::abort(std::string_view reason) {
  const Notice notice{.kind = NoticeKind::kAborted, .rank = core_->members.rank, .text = std::string(reason)};
  const auto verdict = decide(std::span(&notice, 1), core_->members, true);
  core_->fail(*verdict);
  core_->monitor->tell(notice);
}

std::optional<GroupFailure> Group::failure() const {
  base::MutexLock lock(core_->mutex);
  return core_->failure;
}

base::Status Group::close() {
  Notice notice{.kind = NoticeKind::kLeft, .rank = core_->members.rank};
  {
    base::MutexLock lock(core_->mutex);
    if (core_->failure) return core_->failure->error;
    if (core_->closed) return {};
    if (!core_->queue.empty() || !core_->messages.empty()) {
      return base::input_error(
          fmt::format("group `{}` cannot be closed while {} ops are under way; wait for them first",
                      core_->members.name, core_->queue.size() + core_->messages.size()));
    }
    core_->closed = true;
    core_->changed.notify_all();
    notice.sequence = core_->called;
  }
  core_->monitor->tell(notice);
  return core_->monitor->withdraw_will();
}

}  // namespace yoke::comm
