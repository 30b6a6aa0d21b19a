#include "yoke/comm/shm/shm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "yoke/comm/shm/layout.h"
#include "yoke/comm/shm/mailbox.h"
#include "yoke/comm/shm/segment.h"

namespace yoke::comm {
namespace shm {
namespace {

class ShmBackend final : public Backend {
 public:
  ShmBackend(const BackendOptions& options, const Layout& layout, Segment segment)
      : rank_(options.rank),
        size_(options.size),
        patience_(Patience::for_ranks(options.size)),
        layout_(layout),
        segment_(std::move(segment)),
        mailbox_(options.rank, options.size, layout, segment_.data(), *options.clock) {}

  std::string_view name() const override { return "shm"; }

  void interrupt() override {
    interrupted_.store(true, std::memory_order_release);
    mailbox_.interrupt();
  }

  std::unique_ptr<Transfer> start(const Op& op) override { return mailbox_.start(op); }

  Outcome run(const Op& op, std::uint64_t sequence, const Call& call) override {
    if (size_ == 1) return std::nullopt;
    const bool reduces = op.kind == OpKind::kAllReduce || op.kind == OpKind::kReduceScatter;
    const bool small = reduces && op.bytes() <= kInlineBytes;
    if (auto trouble = enter(op, signature_of(op, sequence), small, call)) return trouble;
    if (small) return reduce_entries(op);
    switch (op.kind) {
      case OpKind::kAllReduce:
        return exchange(op, {.reduce = true, .gather = true}, call);
      case OpKind::kReduceScatter:
        return exchange(op, {.reduce = true, .gather = false}, call);
      case OpKind::kAllGather:
        return exchange(op, {.reduce = false, .gather = true}, call);
      case OpKind::kBroadcast:
        return broadcast(op, call);
      case OpKind::kBarrier:
      case OpKind::kSend:
      case OpKind::kReceive:
        return std::nullopt;
    }
    return Trouble{.detail = "unknown op"};
  }

 private:
  struct Phases {
    bool reduce;
    bool gather;
  };

  Area& area(int rank) const { return layout_.area(segment_.data(), rank); }
  Area& own() const { return area(rank_); }

  /// Until `counter` of every other rank has reached `target`.
  Outcome await_others(Counter Area::*counter, std::uint32_t target, const Call& call) {
    for (int step = 1; step < size_; ++step) {
      const int peer = (rank_ + step) % size_;
      if (auto trouble = await(counter, peer, target, call)) return trouble;
    }
    return std::nullopt;
  }
  Outcome await(Counter Area::*counter, int peer, std::uint32_t target, const Call& call) {
    return (area(peer).*counter).wait(target, peer, call, interrupted_, patience_);
  }

  /// Every collective begins here: all ranks say what they call, and wait until all have. So an entry can be written
  /// again two collectives later: everyone has by then left the one in which it was read.
  Outcome enter(const Op& op, const Signature& signature, bool with_data, const Call& call) {
    Entry& entry = own().entries[entered_ % 2];
    entry.signature = signature;
    if (with_data && op.bytes() > 0) std::memcpy(entry.data, op.data, op.bytes());
    own().entered.raise_to(++entered_);
    if (auto trouble = await_others(&Area::entered, entered_, call)) return trouble;
    for (int peer = 0; peer < size_; ++peer) {
      const Signature theirs = entry_of(peer).signature;
      if (theirs != signature) return mismatch(peer, signature, theirs);
    }
    return std::nullopt;
  }

  /// Of the collective that all ranks have entered last.
  const Entry& entry_of(int peer) const { return area(peer).entries[(entered_ - 1) % 2]; }

  Outcome reduce_entries(const Op& op) const {
    if (op.bytes() == 0) return std::nullopt;
    comm::reduce(op.data, entry_of(0).data, entry_of(1).data, op.count, op.dtype, op.reduction);
    for (int peer = 2; peer < size_; ++peer) {
      comm::reduce(op.data, entry_of(peer).data, op.count, op.dtype, op.reduction);
    }
    return std::nullopt;
  }

  /// Every rank's part of the data is cut into pieces; round k moves piece k of every part through buffer k % kBuffers.
  /// A rank stages what others reduce, reduces its own piece from everybody's buffers in the order of ranks, and
  /// collects the others' finished pieces. The three run one round apart, so that ranks rarely wait for each other.
  Outcome exchange(const Op& op, Phases phases, const Call& call) {
    const auto ranks = static_cast<std::size_t>(size_);
    const std::size_t piece_bytes = kBufferBytes / ranks / 64 * 64;
    const std::size_t longest = part_of(op.count, size_, 0).count * size_of(op.dtype);
    const auto rounds = static_cast<std::uint32_t>((longest + piece_bytes - 1) / piece_bytes);
    // Piece `round` of the part of `rank`, in the caller's memory and in a rank's buffer.
    const auto in_data = [&](std::uint32_t round, int rank) {
      const Part part = part_of(op.count, size_, rank);
      const std::size_t width = size_of(op.dtype);
      const std::size_t begin = std::min(round * piece_bytes, part.count * width);
      const std::size_t bytes = std::min(piece_bytes, part.count * width - begin);
      return std::span(op.data + part.begin * width + begin, bytes);
    };
    const auto in_buffer = [&](std::uint32_t round, int of_rank, int part) {
      return area(of_rank).buffers[(moved_ + round) % kBuffers] + static_cast<std::size_t>(part) * piece_bytes;
    };
    const auto copy = [](std::byte* to, std::span<const std::byte> from) {
      if (!from.empty()) std::memcpy(to, from.data(), from.size());
    };

    const auto stage = [&](std::uint32_t round) -> Outcome {
      if (auto trouble = await_free_buffer(round, call)) return trouble;
      for (int part = 0; part < size_; ++part) {
        if ((part == rank_) != phases.reduce) copy(in_buffer(round, rank_, part), in_data(round, part));
      }
      own().staged.raise_to(moved_ + round + 1);
      return std::nullopt;
    };
    const auto reduce = [&](std::uint32_t round) -> Outcome {
      if (auto trouble = await_others(&Area::staged, moved_ + round + 1, call)) return trouble;
      const auto data = in_data(round, rank_);
      const std::size_t count = data.size() / size_of(op.dtype);
      std::byte* sum = in_buffer(round, rank_, rank_);
      const auto from = [&](int rank) { return rank == rank_ ? data.data() : in_buffer(round, rank, rank_); };
      comm::reduce(sum, from(0), from(1), count, op.dtype, op.reduction);
      for (int rank = 2; rank < size_; ++rank) comm::reduce(sum, from(rank), count, op.dtype, op.reduction);
      copy(data.data(), std::span(sum, data.size()));
      own().reduced.raise_to(moved_ + round + 1);
      if (!phases.gather) own().taken.raise_to(moved_ + round + 1);
      return std::nullopt;
    };
    const auto collect = [&](std::uint32_t round) -> Outcome {
      Counter Area::*const ready = phases.reduce ? &Area::reduced : &Area::staged;
      for (int step = 1; step < size_; ++step) {
        const int peer = (rank_ + step) % size_;
        if (auto trouble = await(ready, peer, moved_ + round + 1, call)) return trouble;
        const auto data = in_data(round, peer);
        copy(data.data(), std::span(in_buffer(round, peer, peer), data.size()));
      }
      own().taken.raise_to(moved_ + round + 1);
      return std::nullopt;
    };

    for (std::uint32_t round = 0; round < rounds + 2; ++round) {
      if (round < rounds) {
        if (auto trouble = stage(round)) return trouble;
      }
      if (phases.reduce && round >= 1 && round - 1 < rounds) {
        if (auto trouble = reduce(round - 1)) return trouble;
      }
      if (phases.gather && round >= 2) {
        if (auto trouble = collect(round - 2)) return trouble;
      }
    }
    finish(rounds);
    return std::nullopt;
  }

  Outcome broadcast(const Op& op, const Call& call) {
    const auto data = op.span();
    const auto rounds = static_cast<std::uint32_t>((data.size() + kBufferBytes - 1) / kBufferBytes);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const auto piece =
          data.subspan(round * kBufferBytes).first(std::min(kBufferBytes, data.size() - round * kBufferBytes));
      std::byte* buffer = area(op.peer).buffers[(moved_ + round) % kBuffers];
      if (rank_ == op.peer) {
        if (auto trouble = await_free_buffer(round, call)) return trouble;
        std::memcpy(buffer, piece.data(), piece.size());
        own().staged.raise_to(moved_ + round + 1);
      } else {
        if (auto trouble = await(&Area::staged, op.peer, moved_ + round + 1, call)) return trouble;
        std::memcpy(piece.data(), buffer, piece.size());
        own().taken.raise_to(moved_ + round + 1);
      }
    }
    finish(rounds);
    return std::nullopt;
  }

  /// The buffer of this round was used kBuffers rounds ago: all others must be done with that.
  Outcome await_free_buffer(std::uint32_t round, const Call& call) {
    return await_others(&Area::taken, moved_ + round + 1 - static_cast<std::uint32_t>(kBuffers), call);
  }

  /// All counters agree again, whichever of them this op has used.
  void finish(std::uint32_t rounds) {
    moved_ += rounds;
    own().staged.raise_to(moved_);
    own().reduced.raise_to(moved_);
    own().taken.raise_to(moved_);
  }

  const int rank_;
  const int size_;
  const Patience patience_;
  const Layout layout_;
  const Segment segment_;
  std::atomic<bool> interrupted_{false};
  std::uint32_t entered_ = 0;  // collectives
  std::uint32_t moved_ = 0;    // rounds of all collectives so far
  Mailbox mailbox_;            // last: its thread uses the segment
};

}  // namespace
}  // namespace shm

base::Result<std::unique_ptr<Backend>> make_shm_backend(const BackendOptions& options, const base::Deadline& deadline) {
  if (options.size > shm::kLargestGroup) {
    return base::input_error(
        fmt::format("{} ranks on one host; the shm backend takes up to {}", options.size, shm::kLargestGroup));
  }
  const shm::Layout layout(options.size);
  YOKE_TRY(auto segment, shm::Segment::meet(options, layout.bytes(), deadline));
  return std::unique_ptr<Backend>(std::make_unique<shm::ShmBackend>(options, layout, std::move(segment)));
}

}  // namespace yoke::comm
