#include "yoke/comm/message/message_backend.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <vector>

namespace yoke::comm {
namespace {

/// Up to this size every rank sends its data to all others in one go: n - 1 messages but only one delay.
constexpr std::size_t kSmallBytes = 16U << 10U;
constexpr int kSmallRanks = 8;
/// Larger data moves in segments, so that reducing one overlaps with receiving the next.
constexpr std::size_t kSegmentBytes = 512U << 10U;
/// Receives posted ahead of the one that is waited for.
constexpr std::size_t kAhead = 2;

/// Sends under way, waited for in the order they were started.
class Sends {
 public:
  explicit Sends(const Call& call) : call_(call) {}
  void add(int to, std::unique_ptr<Transfer> transfer) { pending_.push_back({to, std::move(transfer)}); }
  Outcome wait() {
    for (auto& [to, transfer] : pending_) {
      call_.wait_for(to);
      if (auto trouble = transfer->wait(call_)) return trouble;
    }
    pending_.clear();
    return std::nullopt;
  }

 private:
  const Call& call_;
  std::deque<std::pair<int, std::unique_ptr<Transfer>>> pending_;
};

class MessageBackend final : public Backend {
 public:
  MessageBackend(int rank, int size, std::unique_ptr<Transport> transport)
      : rank_(rank), size_(size), transport_(std::move(transport)) {}

  std::string_view name() const override { return transport_->name(); }
  void interrupt() override { transport_->interrupt(); }

  std::unique_ptr<Transfer> start(const Op& op) override {
    const Signature signature = signature_of(op, 0);
    if (op.kind == OpKind::kSend) {
      return transport_->send(op.peer, Channel::kMessage, op.tag, &signature, op.span());
    }
    return transport_->receive(op.peer, Channel::kMessage, op.tag, &signature, op.span());
  }

  Outcome run(const Op& op, std::uint64_t sequence, const Call& call) override {
    if (size_ == 1) return std::nullopt;
    const Signature signature = signature_of(op, sequence);
    switch (op.kind) {
      case OpKind::kAllReduce:
        if (op.bytes() <= kSmallBytes && size_ <= kSmallRanks) return exchange(op, signature, call);
        return ring(op, signature, call, {.reduce = true, .gather = true});
      case OpKind::kReduceScatter:
        return ring(op, signature, call, {.reduce = true, .gather = false});
      case OpKind::kAllGather:
        return ring(op, signature, call, {.reduce = false, .gather = true});
      case OpKind::kBroadcast:
        return tree(op, signature, call);
      case OpKind::kBarrier:
      case OpKind::kSend:
      case OpKind::kReceive:
        return disseminate(signature, call);
    }
    return Trouble{.detail = "unknown op"};
  }

 private:
  struct Phases {
    bool reduce;  // add up the parts while they go round
    bool gather;  // pass the finished parts round
  };

  std::unique_ptr<Transfer> send(int to, const Signature* signature, std::span<const std::byte> bytes) {
    return transport_->send(to, Channel::kCollective, 0, signature, bytes);
  }
  std::unique_ptr<Transfer> receive(int from, const Signature* signature, std::span<std::byte> bytes) {
    return transport_->receive(from, Channel::kCollective, 0, signature, bytes);
  }
  static Outcome await(int peer, Transfer& transfer, const Call& call) {
    call.wait_for(peer);
    return transfer.wait(call);
  }

  /// Everyone tells its right neighbour what it calls: if any two ranks disagree, some neighbours do.
  Outcome greet(const Signature& signature, Sends& sends, const Call& call) {
    const int left = (rank_ + size_ - 1) % size_;
    const int right = (rank_ + 1) % size_;
    sends.add(right, send(right, &signature, {}));
    const auto greeting = receive(left, &signature, {});
    return await(left, *greeting, call);
  }

  /// Everyone sends all to all and adds up in the order of ranks.
  Outcome exchange(const Op& op, const Signature& signature, const Call& call) {
    const std::size_t bytes = op.bytes();
    const auto ranks = static_cast<std::size_t>(size_);
    std::vector<std::byte> all(ranks * bytes);
    const auto slot = [&](int rank) { return std::span(all).subspan(static_cast<std::size_t>(rank) * bytes, bytes); };
    std::ranges::copy(op.span(), slot(rank_).begin());
    Sends sends(call);
    std::vector<std::unique_ptr<Transfer>> receives(ranks);
    for (int step = 1; step < size_; ++step) {
      const int to = (rank_ + step) % size_;
      const int from = (rank_ + size_ - step) % size_;
      receives[static_cast<std::size_t>(from)] = receive(from, &signature, slot(from));
      sends.add(to, send(to, &signature, slot(rank_)));
    }
    for (int from = 0; from < size_; ++from) {
      if (from == rank_) continue;
      if (auto trouble = await(from, *receives[static_cast<std::size_t>(from)], call)) return trouble;
    }
    if (bytes > 0) {
      comm::reduce(op.data, slot(0).data(), slot(1).data(), op.count, op.dtype, op.reduction);
      for (int from = 2; from < size_; ++from) {
        comm::reduce(op.data, slot(from).data(), op.count, op.dtype, op.reduction);
      }
    }
    return sends.wait();
  }

  /// Data goes round in `size` parts. In the reduce phase a part is added to on its way and ends, complete, at the rank
  /// of its number; in the gather phase complete parts are passed on to everyone. A part moves in segments, and each
  /// segment is passed on as soon as it is there.
  ///
  /// What is passed on is sent straight from the caller's memory. That memory is written again only by a receive in the
  /// gather phase, which can arrive only after our message has gone round: no send is ever overtaken.
  Outcome ring(const Op& op, const Signature& signature, const Call& call, Phases phases) {
    const int left = (rank_ + size_ - 1) % size_;
    const int right = (rank_ + 1) % size_;
    Sends sends(call);
    if (auto trouble = greet(signature, sends, call)) return trouble;

    struct Segment {
      std::span<std::byte> bytes;
      bool reduce;
      bool last;  // nothing is passed on from the last step
    };
    std::deque<Segment> segments;  // as they will arrive
    const int steps = size_ - 1;
    const int first_part = phases.reduce ? rank_ - 1 : rank_;
    for (const auto bytes : segments_of(op, first_part)) sends.add(right, send(right, nullptr, bytes));
    const int all_steps = phases.reduce && phases.gather ? 2 * steps : steps;
    for (int step = 0; step < all_steps; ++step) {
      for (const auto bytes : segments_of(op, first_part - step - 1)) {
        segments.push_back({bytes, phases.reduce && step < steps, step == all_steps - 1});
      }
    }

    std::vector<std::vector<std::byte>> scratch(kAhead);
    std::deque<std::unique_ptr<Transfer>> posted;
    const auto post = [&](std::size_t index) {
      const Segment& segment = segments[index];
      if (!segment.reduce) return posted.push_back(receive(left, nullptr, segment.bytes));
      auto& room = scratch[index % kAhead];
      room.resize(std::max(room.size(), segment.bytes.size()));
      posted.push_back(receive(left, nullptr, std::span(room).first(segment.bytes.size())));
    };
    for (std::size_t i = 0; i < std::min(kAhead, segments.size()); ++i) post(i);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const Segment& segment = segments[i];
      if (auto trouble = await(left, *posted.front(), call)) return trouble;
      posted.pop_front();
      if (segment.reduce) {
        comm::reduce(segment.bytes.data(), scratch[i % kAhead].data(), segment.bytes.size() / size_of(op.dtype),
                     op.dtype, op.reduction);
      }
      if (!segment.last) sends.add(right, send(right, nullptr, segment.bytes));
      if (i + kAhead < segments.size()) post(i + kAhead);
    }
    return sends.wait();
  }

  /// The segments of the part of rank `index` (which may be negative: it counts round the ring).
  std::vector<std::span<std::byte>> segments_of(const Op& op, int index) const {
    const int rank = ((index % size_) + size_) % size_;
    const Part part = part_of(op.count, size_, rank);
    const std::size_t width = size_of(op.dtype);
    return cut(op.span().subspan(part.begin * width, part.count * width));
  }

  static std::vector<std::span<std::byte>> cut(std::span<std::byte> bytes) {
    std::vector<std::span<std::byte>> pieces;
    for (std::size_t begin = 0; begin < bytes.size(); begin += kSegmentBytes) {
      pieces.push_back(bytes.subspan(begin, std::min(kSegmentBytes, bytes.size() - begin)));
    }
    return pieces;
  }

  /// From the root down a binomial tree, segment by segment.
  Outcome tree(const Op& op, const Signature& signature, const Call& call) {
    // Ranks counted from the root. The parent of v lacks v's lowest bit; its children add lower bits than that.
    const auto place = static_cast<unsigned>((rank_ + size_ - op.peer) % size_);
    const auto rank_at = [&](unsigned v) {
      return static_cast<int>((v + static_cast<unsigned>(op.peer)) % static_cast<unsigned>(size_));
    };
    const unsigned lowest = place == 0 ? std::bit_ceil(static_cast<unsigned>(size_)) : place & (~place + 1);
    std::vector<int> children;
    for (unsigned bit = lowest >> 1U; bit > 0; bit >>= 1U) {
      if (place + bit < static_cast<unsigned>(size_)) children.push_back(rank_at(place + bit));
    }
    const int parent = place == 0 ? -1 : rank_at(place - lowest);

    Sends sends(call);
    if (auto trouble = greet(signature, sends, call)) return trouble;
    for (const auto bytes : cut(op.span())) {
      if (parent >= 0) {
        const auto arriving = receive(parent, nullptr, bytes);
        if (auto trouble = await(parent, *arriving, call)) return trouble;
      }
      for (const int child : children) sends.add(child, send(child, nullptr, bytes));
    }
    return sends.wait();
  }

  /// After round k every rank has heard, directly or not, of its 2^k - 1 left neighbours.
  Outcome disseminate(const Signature& signature, const Call& call) {
    Sends sends(call);
    for (int distance = 1; distance < size_; distance *= 2) {
      const int to = (rank_ + distance) % size_;
      const int from = (rank_ + size_ - distance) % size_;
      sends.add(to, send(to, &signature, {}));
      const auto arriving = receive(from, &signature, {});
      if (auto trouble = await(from, *arriving, call)) return trouble;
    }
    return sends.wait();
  }

  const int rank_;
  const int size_;
  const std::unique_ptr<Transport> transport_;
};

}  // namespace

std::unique_ptr<Backend> make_message_backend(int rank, int size, std::unique_ptr<Transport> transport) {
  return std::make_unique<MessageBackend>(rank, size, std::move(transport));
}

}  // namespace yoke::comm
