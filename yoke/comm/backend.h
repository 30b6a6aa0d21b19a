// What moves the bytes of a group. A Backend knows nothing of sticky errors, launch order, diagnosis or names: Group
// (group.h) does that once for all of them. To add a backend, implement these few functions, add it to join.cc and let
// the contract suite (tests/comm) loose on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/comm/op.h"

namespace yoke::comm {

/// Why an op did not succeed, in the backend's terms. Group turns it into an Error with op, peer and time.
struct Trouble {
  enum class Kind {
    kTimedOut,   // the deadline passed; `peer` is whom this rank waited for
    kLostPeer,   // the connection to `peer` is gone
    kMismatch,   // `peer` called something else; `detail` says what
    kCancelled,  // interrupt() was called
    kBroken,     // anything else; `detail` says what
  };
  Kind kind = Kind::kBroken;
  int peer = -1;  // -1: not known
  std::string detail = {};
};

/// Absent when all went well.
using Outcome = std::optional<Trouble>;

/// The trouble of a peer whose signature differs from ours.
Trouble mismatch(int peer, const Signature& ours, const Signature& theirs);

/// One running op as its backend sees it: how long it may take, whether it was cancelled, and a place to say whom it
/// waits for, so that a hang can be explained. `ranks` translates the backend's ranks into those of the group (for
/// backends that are part of another one); null means they are the same.
class Call {
 public:
  Call(base::Deadline deadline, const base::Clock& clock, const std::atomic<bool>& cancelled,
       std::atomic<int>& waits_for, const std::vector<int>* ranks = nullptr)
      : deadline_(deadline), clock_(clock), cancelled_(cancelled), waits_for_(waits_for), ranks_(ranks) {}

  const base::Deadline& deadline() const { return deadline_; }
  const base::Clock& clock() const { return clock_; }
  base::Duration left() const { return deadline_.left(clock_); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  /// The rank this op waits for now; -1 for none.
  void wait_for(int peer) const { waits_for_.store(peer < 0 ? peer : to_group(peer), std::memory_order_relaxed); }

  /// The same call for a backend whose rank i is rank ranks[i] here. `ranks` must outlive the result.
  Call translated(const std::vector<int>& ranks) const { return {deadline_, clock_, cancelled_, waits_for_, &ranks}; }
  int to_group(int peer) const { return ranks_ == nullptr ? peer : (*ranks_)[static_cast<std::size_t>(peer)]; }

  /// kCancelled or kTimedOut if the wait for `peer` has to end, else nothing: the check of every waiting loop.
  Outcome ended(int peer) const;

 private:
  base::Deadline deadline_;
  const base::Clock& clock_;
  const std::atomic<bool>& cancelled_;
  std::atomic<int>& waits_for_;
  const std::vector<int>* ranks_;
};

/// No wait sleeps longer than this without looking whether it was cancelled.
inline constexpr base::Duration kLongestSleep = std::chrono::milliseconds(20);

/// A message under way. Destroyed before it is done, it lets go of the caller's memory; its connection may then be of
/// no more use.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Until the message has left our memory or arrived in it. Called once, by one thread.
  virtual Outcome wait(const Call& call) = 0;
};

/// One rank's end. Ranks that build backends of one group together do so with the same store and name.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Whether ops may be on_device.
  virtual bool takes_device_memory() const { return false; }

  /// Runs one collective; blocks until it is done, cancelled or late. Called by one thread at a time, in the same
  /// order on every rank; `sequence` counts them. After trouble the backend is only interrupted and destroyed.
  virtual Outcome run(const Op& op, std::uint64_t sequence, const Call& call) = 0;
  /// Starts a send or receive, and does not wait. May be called while run() is under way in another thread. The data
  /// moves without further help from the caller. Starting a receive before its send, or many at once, is fine.
  virtual std::unique_ptr<Transfer> start(const Op& op) = 0;
  /// Makes every present and future wait end soon with kCancelled. Any thread; may be called twice.
  virtual void interrupt() = 0;
};

}  // namespace yoke::comm
