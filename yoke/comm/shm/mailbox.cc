#include "yoke/comm/shm/mailbox.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

namespace yoke::comm::shm {

class Mailbox::MailTransfer final : public Transfer {
 public:
  MailTransfer(Mailbox& mailbox, std::shared_ptr<Mail> mail, int peer)
      : mailbox_(mailbox), mail_(std::move(mail)), peer_(peer) {}
  Outcome wait(const Call& call) override { return mailbox_.wait(*mail_, peer_, call); }

 private:
  Mailbox& mailbox_;
  const std::shared_ptr<Mail> mail_;
  const int peer_;
};

Mailbox::Mailbox(int rank, int size, const Layout& layout, std::byte* memory, const base::Clock& clock)
    : rank_(rank),
      size_(size),
      layout_(layout),
      memory_(memory),
      clock_(clock),
      patience_(Patience::for_ranks(size)),
      outbox_(static_cast<std::size_t>(size)),
      inbox_(static_cast<std::size_t>(size)) {}

Mailbox::~Mailbox() {
  interrupt();
  std::unique_ptr<base::Worker> thread;
  {
    base::MutexLock lock(mutex_);
    thread = std::move(thread_);
  }
}

void Mailbox::interrupt() {
  interrupted_.store(true, std::memory_order_release);
  base::MutexLock lock(mutex_);
  if (thread_) thread_->request_stop();
  changed_.notify_all();
}

std::unique_ptr<Transfer> Mailbox::start(const Op& op) {
  auto mail = std::make_shared<Mail>();
  mail->header = {.bytes = op.bytes(), .tag = op.tag, .unused = 0, .signature = signature_of(op, 0)};
  mail->data = op.span();
  const auto peer = static_cast<std::size_t>(op.peer);
  base::MutexLock lock(mutex_);
  if (op.kind == OpKind::kSend) {
    outbox_[peer].push_back(mail);
  } else {
    Inbox& inbox = inbox_[peer];
    inbox.wanted[op.tag].push_back(mail);
    deliver(inbox, op.peer);
  }
  progress();
  if (!mail->done) {
    if (!thread_) {
      thread_ = std::make_unique<base::Worker>("yoke-mail", [this](std::stop_token stop) { return work(stop); });
    }
    changed_.notify_all();
  }
  return std::make_unique<MailTransfer>(*this, std::move(mail), op.peer);
}

Outcome Mailbox::wait(Mail& mail, int peer, const Call& call) {
  call.wait_for(peer);
  Counter& bell = bell_of(rank_);
  Outcome result;
  int naps = 0;
  {
    base::MutexLock lock(mutex_);
    ++waiters_;
  }
  for (;;) {
    const auto seen = bell.value.load(std::memory_order_acquire);
    {
      base::MutexLock lock(mutex_);
      const bool moved = progress();
      if (mail.done) {
        result = mail.trouble;
        break;
      }
      if (moved) naps = 0;
    }
    if (interrupted_.load(std::memory_order_acquire)) {
      result = Trouble{.kind = Trouble::Kind::kCancelled, .peer = peer};
      break;
    }
    if ((result = call.ended(peer))) break;
    if (naps++ < patience_.yields) {
      ::sched_yield();
    } else {
      bell.sleep_while(seen, std::min(call.left(), kLongestSleep));
    }
  }
  base::MutexLock lock(mutex_);
  --waiters_;
  changed_.notify_all();
  return result;
}

base::Status Mailbox::work(const std::stop_token& stop) {
  Counter& bell = bell_of(rank_);
  while (!stop.stop_requested()) {
    const auto seen = bell.value.load(std::memory_order_acquire);
    {
      base::MutexLock lock(mutex_);
      // Whoever waits moves the bytes: this thread would only be in the way.
      if (waiters_ > 0 || !busy()) {
        changed_.wait(mutex_, base::Deadline::in(std::chrono::seconds(1), clock_));
        continue;
      }
      progress();
      if (!busy()) continue;
    }
    bell.sleep_while(seen, kLongestSleep);
  }
  return {};
}

bool Mailbox::busy() const {
  return std::ranges::any_of(outbox_, [](const auto& mails) { return !mails.empty(); }) ||
         std::ranges::any_of(inbox_, [](const auto& inbox) { return !inbox.wanted.empty() || inbox.header; });
}

/// Moves what can be moved without waiting.
bool Mailbox::progress() {
  if (interrupted_.load(std::memory_order_acquire)) return false;
  bool moved = false;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const bool changed = static_cast<int>(push(peer)) + static_cast<int>(pull(peer)) > 0;
    if (changed) bell_of(peer).ring();
    moved = moved || changed;
  }
  return moved;
}

bool Mailbox::push(int to) {
  auto& mails = outbox_[static_cast<std::size_t>(to)];
  Ring& ring = layout_.ring(memory_, rank_, to);
  bool moved = false;
  while (!mails.empty()) {
    Mail& mail = *mails.front();
    const auto header = std::as_bytes(std::span(&mail.header, 1));
    const bool in_header = mail.moved < header.size();
    const std::span<const std::byte> rest =
        in_header ? header.subspan(mail.moved)
                  : std::span<const std::byte>(mail.data).subspan(mail.moved - header.size());
    const std::size_t sent = put(ring, rest);
    mail.moved += sent;
    moved = moved || sent > 0;
    if (mail.moved == header.size() + mail.data.size()) {
      mail.done = true;
      mails.pop_front();
    } else if (sent < rest.size()) {
      break;
    }
  }
  return moved;
}

bool Mailbox::pull(int from) {
  Inbox& inbox = inbox_[static_cast<std::size_t>(from)];
  Ring& ring = layout_.ring(memory_, from, rank_);
  bool moved = false;
  for (;;) {
    if (!inbox.header) {
      const auto available = ring.written.load(std::memory_order_acquire) - ring.read.load(std::memory_order_relaxed);
      if (available < sizeof(Header)) return moved;
      Header header;
      get(ring, std::as_writable_bytes(std::span(&header, 1)));
      moved = true;
      inbox.header = header;
      inbox.arrived = 0;
      const auto wanted = inbox.wanted.find(header.tag);
      // Only a receive that fits may be written to; everything else is judged once it is all here.
      const bool fits = wanted != inbox.wanted.end() && !inbox.unclaimed.contains(header.tag) &&
                        wanted->second.front()->header.signature == header.signature;
      if (fits) {
        inbox.into = wanted->second.front();
        wanted->second.pop_front();
        if (wanted->second.empty()) inbox.wanted.erase(wanted);
      } else {
        inbox.aside.resize(sizeof(Header) + header.bytes);
        std::memcpy(inbox.aside.data(), &header, sizeof(Header));
      }
    }
    const auto room = inbox.into ? inbox.into->data : std::span(inbox.aside).subspan(sizeof(Header));
    const std::size_t got = get(ring, room.subspan(inbox.arrived));
    inbox.arrived += got;
    moved = moved || got > 0;
    if (inbox.arrived < inbox.header->bytes) return moved;
    if (inbox.into) {
      inbox.into->done = true;
      inbox.into.reset();
    } else {
      inbox.unclaimed[inbox.header->tag].push_back(std::move(inbox.aside));
      inbox.aside = {};
      deliver(inbox, from);
    }
    inbox.header.reset();
  }
}

/// Gives messages that came before their receives to those.
void Mailbox::deliver(Inbox& inbox, int from) {
  for (auto stored = inbox.unclaimed.begin(); stored != inbox.unclaimed.end();) {
    auto& [tag, messages] = *stored;
    const auto wanted = inbox.wanted.find(tag);
    while (wanted != inbox.wanted.end() && !messages.empty() && !wanted->second.empty()) {
      Mail& mail = *wanted->second.front();
      Header header;
      std::memcpy(&header, messages.front().data(), sizeof(Header));
      if (header.signature != mail.header.signature) {
        mail.trouble = mismatch(from, mail.header.signature, header.signature);
      } else if (!mail.data.empty()) {
        std::memcpy(mail.data.data(), messages.front().data() + sizeof(Header), mail.data.size());
      }
      mail.done = true;
      messages.pop_front();
      wanted->second.pop_front();
    }
    if (wanted != inbox.wanted.end() && wanted->second.empty()) inbox.wanted.erase(wanted);
    stored = messages.empty() ? inbox.unclaimed.erase(stored) : std::next(stored);
  }
}

/// As many bytes as there is room for.
std::size_t Mailbox::put(Ring& ring, std::span<const std::byte> bytes) const {
  const auto capacity = layout_.ring_bytes();
  const auto written = ring.written.load(std::memory_order_relaxed);
  const auto room = capacity - (written - ring.read.load(std::memory_order_acquire));
  const std::size_t count = std::min<std::size_t>(room, bytes.size());
  if (count == 0) return 0;
  const std::size_t at = written & (capacity - 1);
  const std::size_t before_end = std::min(count, capacity - at);
  std::memcpy(&ring.first + at, bytes.data(), before_end);
  std::memcpy(&ring.first, bytes.data() + before_end, count - before_end);
  ring.written.store(written + count, std::memory_order_release);
  return count;
}

/// As many bytes as there are.
std::size_t Mailbox::get(Ring& ring, std::span<std::byte> bytes) const {
  const auto capacity = layout_.ring_bytes();
  const auto read = ring.read.load(std::memory_order_relaxed);
  const std::size_t count = std::min<std::size_t>(ring.written.load(std::memory_order_acquire) - read, bytes.size());
  if (count == 0) return 0;
  const std::size_t at = read & (capacity - 1);
  const std::size_t before_end = std::min(count, capacity - at);
  std::memcpy(bytes.data(), &ring.first + at, before_end);
  std::memcpy(bytes.data() + before_end, &ring.first, count - before_end);
  ring.read.store(read + count, std::memory_order_release);
  return count;
}

}  // namespace yoke::comm::shm
