#include "yoke/comm/gloo/gloo.h"

#include <fmt/format.h>
#include <gloo/config.h>
#include <gloo/transport/unbound_buffer.h>

#include <utility>

#include "yoke/base/mutex.h"
#include "yoke/base/thread.h"
#include "yoke/comm/gloo/connect.h"
#include "yoke/comm/gloo/slot.h"
#include "yoke/comm/message/headed_transport.h"
#include "yoke/comm/message/message_backend.h"

// How gloo behaves, and what follows from it:
// - A message moves once both sides have posted it, in the order posted on its slot. A sender that sends more than was
//   posted ends the receiver's process; less is taken without a word. The headed transport keeps that from happening.
// - A wait cannot be asked whether it is done, and one that runs out of time closes all connections. It can be aborted
//   from another thread: a watcher does that at deadlines, on cancellation and when the peer is lost.
// - A lost connection ends the waits of messages that have not begun to move, but forgets those that have. A receive
//   that nothing is sent for, one for each peer, tells the watcher.
// - Writing to a lost connection raises SIGPIPE: translate_gloo() keeps it away.

namespace yoke::comm {
namespace {

using GlooBuffer = ::gloo::transport::UnboundBuffer;

/// A wait for a lost peer is aborted this often before it ends: what had arrived before the loss must count as arrived,
/// and gloo hides it from a wait that is aborted while it wakes up.
constexpr int kLooksAtLostPeer = 3;
/// Longer than any wait: the watcher ends waits, not gloo.
constexpr auto kNever = std::chrono::hours(24 * 365);

/// Destroys a buffer that gloo's thread may have touched last. Taking the buffer's lock once more shows thread checkers
/// the order that gloo keeps by means they cannot see.
struct BufferDeleter {
  void operator()(GlooBuffer* buffer) const {
    buffer->abortWaitRecv();
    delete buffer;
  }
};
using BufferOwner = std::unique_ptr<GlooBuffer, BufferDeleter>;

enum class Direction { kSend, kReceive };

/// The connections of one rank, and the watcher that ends waits on them. Shared by the transport and its transfers.
class Mesh {
 public:
  /// `context` is null for a group of one.
  Mesh(std::shared_ptr<GlooContext> context, std::vector<BufferOwner> canaries, const base::Clock& clock)
      : context_(std::move(context)),
        clock_(clock),
        canaries_(std::move(canaries)),
        watcher_("gloo-watch", [this](const std::stop_token&) { return watch(); }) {}

  ~Mesh() {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  bool connects_to(int peer) const {
    return peer >= 0 && static_cast<std::size_t>(peer) < canaries_.size() && canaries_[static_cast<std::size_t>(peer)];
  }
  BufferOwner make_buffer(std::span<std::byte> memory) {
    return BufferOwner(context_->createUnboundBuffer(memory.data(), memory.size()).release());
  }

  /// Until the buffer's message has moved. The buffer may be destroyed afterwards, whatever the outcome.
  Outcome wait(GlooBuffer& buffer, Direction direction, int peer, const Call& call) {
    Waiting waiting{.buffer = buffer, .direction = direction, .peer = peer, .call = call};
    {
      base::MutexLock lock(mutex_);
      if (interrupted_) return Trouble{.kind = Trouble::Kind::kCancelled, .peer = peer};
      waiting_.push_back(&waiting);
      if (idle_) changed_.notify_all();
    }
    Outcome outcome;
    for (int looks = 1;; ++looks) {
      bool aborted = false;
      outcome = translate_gloo(
          peer, [&] { aborted = direction == Direction::kSend ? !buffer.waitSend(kNever) : !buffer.waitRecv(kNever); });
      if (!aborted) break;
      base::MutexLock lock(mutex_);
      outcome = std::exchange(waiting.verdict, std::nullopt);
      const bool certain = outcome && outcome->kind != Trouble::Kind::kLostPeer;
      if (certain || looks >= kLooksAtLostPeer) break;
    }
    base::MutexLock lock(mutex_);
    std::erase(waiting_, &waiting);
    return outcome;
  }

  void interrupt() {
    base::MutexLock lock(mutex_);
    interrupted_ = true;
    look();
  }

 private:
  struct Waiting {
    GlooBuffer& buffer;
    const Direction direction;
    const int peer;
    const Call& call;
    Outcome verdict = {};
  };

  /// Sleeps while nobody waits.
  base::Status watch() {
    base::MutexLock lock(mutex_);
    while (!stopping_) {
      if (waiting_.empty()) {
        idle_ = true;
        changed_.wait(mutex_, base::Deadline::in(kNever, clock_));
        idle_ = false;
      } else {
        changed_.wait(mutex_, base::Deadline::in(kLongestSleep, clock_));
        look();
      }
    }
    return {};
  }

  void look() YOKE_REQUIRES(mutex_) {
    for (Waiting* waiting : waiting_) {
      waiting->verdict = interrupted_ ? Trouble{.kind = Trouble::Kind::kCancelled, .peer = waiting->peer}
                                      : waiting->call.ended(waiting->peer);
      if (!waiting->verdict) waiting->verdict = look_at_peer(waiting->peer);
      if (!waiting->verdict) continue;
      waiting->direction == Direction::kSend ? waiting->buffer.abortWaitSend() : waiting->buffer.abortWaitRecv();
    }
  }

  Outcome look_at_peer(int peer) YOKE_REQUIRES(mutex_) {
    GlooBuffer& canary = *canaries_[static_cast<std::size_t>(peer)];
    // An aborted wait returns at once, or throws if the connection is lost.
    return translate_gloo(peer, [&] {
      canary.abortWaitRecv();
      canary.waitRecv(kNever);
    });
  }

  const std::shared_ptr<GlooContext> context_;
  const base::Clock& clock_;
  const std::vector<BufferOwner> canaries_;  // by rank; null for our own

  base::Mutex mutex_;
  base::Condition changed_;
  std::vector<Waiting*> waiting_ YOKE_GUARDED_BY(mutex_);
  bool interrupted_ YOKE_GUARDED_BY(mutex_) = false;
  bool stopping_ YOKE_GUARDED_BY(mutex_) = false;
  bool idle_ YOKE_GUARDED_BY(mutex_) = false;
  base::Worker watcher_;  // last: it uses everything above
};

/// A message that gloo was asked to move, or why it could not be asked.
class GlooTransfer final : public Transfer {
 public:
  GlooTransfer(std::shared_ptr<Mesh> mesh, Direction direction, int peer, std::uint64_t slot,
               std::span<std::byte> memory)
      : mesh_(std::move(mesh)), direction_(direction), peer_(peer) {
    if (!mesh_->connects_to(peer)) {
      failure_ = Trouble{.peer = peer, .detail = "gloo connects a rank with the other ranks of its group only"};
      return;
    }
    failure_ = translate_gloo(peer, [&] {
      buffer_ = mesh_->make_buffer(memory);
      direction == Direction::kSend ? buffer_->send(peer, slot) : buffer_->recv(peer, slot);
    });
  }

  /// Afterwards gloo no longer touches the memory, whatever the outcome.
  Outcome wait(const Call& call) override {
    const BufferOwner buffer = std::move(buffer_);
    if (failure_) return failure_;
    return mesh_->wait(*buffer, direction_, peer_, call);
  }

 private:
  const std::shared_ptr<Mesh> mesh_;
  const Direction direction_;
  const int peer_;
  BufferOwner buffer_;
  Outcome failure_;
};

class GlooWire final : public Wire {
 public:
  explicit GlooWire(std::shared_ptr<Mesh> mesh) : mesh_(std::move(mesh)) {}

  std::string_view name() const override { return "gloo"; }
  void interrupt() override { mesh_->interrupt(); }

  std::unique_ptr<Transfer> send(int to, const Lane& lane, std::span<const std::byte> bytes) override {
    // Gloo has one kind of buffer for both directions; a send only reads it.
    const std::span<std::byte> memory(const_cast<std::byte*>(bytes.data()), bytes.size());
    return std::make_unique<GlooTransfer>(mesh_, Direction::kSend, to, gloo_slot(lane), memory);
  }
  std::unique_ptr<Transfer> receive(int from, const Lane& lane, std::span<std::byte> bytes) override {
    return std::make_unique<GlooTransfer>(mesh_, Direction::kReceive, from, gloo_slot(lane), bytes);
  }

 private:
  const std::shared_ptr<Mesh> mesh_;
};

}  // namespace

base::Result<std::unique_ptr<Backend>> make_gloo_backend(const BackendOptions& options,
                                                         const base::Deadline& deadline) {
  std::shared_ptr<GlooContext> context;
  std::vector<BufferOwner> canaries(static_cast<std::size_t>(options.size));
  if (options.size > 1) {
    YOKE_TRY(context, connect_gloo(options, deadline));
    for (int peer = 0; peer < options.size; ++peer) {
      if (peer == options.rank) continue;
      auto& canary = canaries[static_cast<std::size_t>(peer)];
      const auto failed = translate_gloo(peer, [&] {
        canary.reset(context->createUnboundBuffer(nullptr, 0).release());
        canary->recv(peer, kGlooCanarySlot);
      });
      if (failed) return base::peer_error(fmt::format("gloo has lost rank {}: {}", peer, failed->detail));
    }
  }
  auto mesh = std::make_shared<Mesh>(std::move(context), std::move(canaries), *options.clock);
  return make_message_backend(options.rank, options.size,
                              make_headed_transport(std::make_unique<GlooWire>(std::move(mesh))));
}

BackendInfo gloo_info() {
  return {.name = "gloo",
          .available = true,
          .detail = fmt::format("libgloo {}.{}.{}", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH)};
}

}  // namespace yoke::comm
