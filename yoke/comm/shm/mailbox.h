// Messages between processes of one host: every ordered pair of ranks has a ring of bytes in shared memory. Whoever
// waits for a message moves the bytes itself; while nobody waits, a thread of the mailbox does.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "yoke/base/mutex.h"
#include "yoke/base/thread.h"
#include "yoke/comm/backend.h"
#include "yoke/comm/shm/layout.h"

namespace yoke::comm::shm {

/// One rank's end of all its rings. Any thread.
class Mailbox {
 public:
  /// `memory` must outlive the mailbox.
  Mailbox(int rank, int size, const Layout& layout, std::byte* memory, const base::Clock& clock);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  std::unique_ptr<Transfer> start(const Op& op);
  void interrupt();

 private:
  class MailTransfer;

  /// Precedes the bytes of each message in a ring.
  struct Header {
    std::uint64_t bytes = 0;
    std::uint32_t tag = 0;
    std::uint32_t unused = 0;
    Signature signature;
  };

  /// A send or receive that was started.
  struct Mail {
    Header header;
    std::span<std::byte> data;
    std::size_t moved = 0;  // bytes of header and data that a send has put into its ring
    bool done = false;
    Outcome trouble;
  };

  /// What has come from one rank.
  struct Inbox {
    std::map<std::uint32_t, std::deque<std::shared_ptr<Mail>>> wanted;      // by tag
    std::map<std::uint32_t, std::deque<std::vector<std::byte>>> unclaimed;  // whole messages with their headers
    std::optional<Header> header;                                           // of the message that is arriving now
    std::shared_ptr<Mail> into;                                             // where it goes; none: into `aside`
    std::vector<std::byte> aside;
    std::size_t arrived = 0;  // bytes of it after the header
  };

  bool progress() YOKE_REQUIRES(mutex_);
  bool push(int to) YOKE_REQUIRES(mutex_);
  bool pull(int from) YOKE_REQUIRES(mutex_);
  void deliver(Inbox& inbox, int from) YOKE_REQUIRES(mutex_);
  bool busy() const YOKE_REQUIRES(mutex_);
  Outcome wait(Mail& mail, int peer, const Call& call);
  base::Status work(const std::stop_token& stop);

  std::size_t put(Ring& ring, std::span<const std::byte> bytes) const;
  std::size_t get(Ring& ring, std::span<std::byte> bytes) const;
  Counter& bell_of(int rank) const { return layout_.area(memory_, rank).bell; }

  const int rank_;
  const int size_;
  const Layout layout_;
  std::byte* const memory_;
  const base::Clock& clock_;
  const Patience patience_;
  std::atomic<bool> interrupted_{false};

  base::Mutex mutex_;
  base::Condition changed_;
  std::vector<std::deque<std::shared_ptr<Mail>>> outbox_ YOKE_GUARDED_BY(mutex_);  // by destination
  std::vector<Inbox> inbox_ YOKE_GUARDED_BY(mutex_);                               // by source
  int waiters_ YOKE_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<base::Worker> thread_ YOKE_GUARDED_BY(mutex_);  // from the first message on that had to wait
};

}  // namespace yoke::comm::shm
