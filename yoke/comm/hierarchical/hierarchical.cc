#include "yoke/comm/hierarchical/hierarchical.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "yoke/comm/gloo/gloo.h"
#include "yoke/comm/shm/shm.h"

namespace yoke::comm {
namespace {

/// Some ranks of the group with a backend of their own, in which they count from 0.
struct Circle {
  std::vector<int> ranks;  // their ranks in the group
  int own = -1;            // this rank's place among them; -1: not one of them
  std::unique_ptr<Backend> backend;

  int place_of(int rank) const { return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin()); }
  Outcome run(const Op& op, std::uint64_t sequence, const Call& call) const {
    auto trouble = backend->run(op, sequence, call.translated(ranks));
    if (trouble && trouble->peer >= 0) trouble->peer = ranks[static_cast<std::size_t>(trouble->peer)];
    return trouble;
  }
};

/// The backend's ranks are not the group's: troubles and waits are translated.
class TranslatedTransfer final : public Transfer {
 public:
  TranslatedTransfer(std::unique_ptr<Transfer> transfer, const std::vector<int>& ranks)
      : transfer_(std::move(transfer)), ranks_(ranks) {}
  Outcome wait(const Call& call) override {
    auto trouble = transfer_->wait(call.translated(ranks_));
    if (trouble && trouble->peer >= 0) trouble->peer = ranks_[static_cast<std::size_t>(trouble->peer)];
    return trouble;
  }

 private:
  const std::unique_ptr<Transfer> transfer_;
  const std::vector<int>& ranks_;  // the backend's, which outlives its transfers
};

class HierarchicalBackend final : public Backend {
 public:
  HierarchicalBackend(int rank, int size, std::vector<int> leader_of, Circle host, Circle leaders, Circle everyone)
      : rank_(rank),
        size_(size),
        leader_of_(std::move(leader_of)),
        host_(std::move(host)),
        leaders_(std::move(leaders)),
        everyone_(std::move(everyone)) {}

  std::string_view name() const override { return "hierarchical"; }

  void interrupt() override {
    host_.backend->interrupt();
    if (leaders_.backend) leaders_.backend->interrupt();
    everyone_.backend->interrupt();
  }

  std::unique_ptr<Transfer> start(const Op& op) override {
    if (leader_of_[static_cast<std::size_t>(op.peer)] != leader()) return everyone_.backend->start(op);
    Op inside = op;
    inside.peer = host_.place_of(op.peer);
    return std::make_unique<TranslatedTransfer>(host_.backend->start(inside), host_.ranks);
  }

  Outcome run(const Op& op, std::uint64_t sequence, const Call& call) override {
    switch (op.kind) {
      case OpKind::kAllReduce:
      case OpKind::kReduceScatter:
        return reduce(op, sequence, call);
      case OpKind::kAllGather:
        return gather(op, sequence, call);
      case OpKind::kBroadcast:
        return broadcast(op, sequence, call);
      case OpKind::kBarrier:
      case OpKind::kSend:
      case OpKind::kReceive:
        if (auto trouble = host_.run(op, sequence, call)) return trouble;
        if (auto trouble = between_hosts(op, sequence, call)) return trouble;
        return host_.run(op, sequence, call);
    }
    return Trouble{.detail = "unknown op"};
  }

 private:
  int leader() const { return host_.ranks.front(); }

  Outcome between_hosts(const Op& op, std::uint64_t sequence, const Call& call) const {
    return leaders_.backend ? leaders_.run(op, sequence, call) : std::nullopt;
  }

  /// The host's sum, the sum of all hosts, and back. A rank that needs its part only gets all of it.
  Outcome reduce(const Op& op, std::uint64_t sequence, const Call& call) const {
    const Op whole = comm::all_reduce(op.data, op.count, op.dtype, op.reduction);
    if (auto trouble = host_.run(whole, sequence, call)) return trouble;
    if (auto trouble = between_hosts(whole, sequence, call)) return trouble;
    return host_.run(comm::broadcast(op.data, op.count, op.dtype, 0), sequence, call);
  }

  /// Parts that nobody else has: added up as bytes with zeros everywhere else, they are gathered.
  Outcome gather(const Op& op, std::uint64_t sequence, const Call& call) const {
    const Part own = part_of(op.count, size_, rank_);
    const std::size_t width = size_of(op.dtype);
    if (op.bytes() > 0) {
      std::memset(op.data, 0, own.begin * width);
      const std::size_t end = (own.begin + own.count) * width;
      std::memset(op.data + end, 0, op.bytes() - end);
    }
    return reduce(comm::all_reduce(op.data, op.bytes(), DType::kU8), sequence, call);
  }

  Outcome broadcast(const Op& op, std::uint64_t sequence, const Call& call) const {
    const int source = leader_of_[static_cast<std::size_t>(op.peer)];
    const auto from = [&](int place) { return comm::broadcast(op.data, op.count, op.dtype, place); };
    if (source == leader()) {
      if (auto trouble = host_.run(from(host_.place_of(op.peer)), sequence, call)) return trouble;
      return between_hosts(from(leaders_.place_of(source)), sequence, call);
    }
    if (auto trouble = between_hosts(from(leaders_.place_of(source)), sequence, call)) return trouble;
    return host_.run(from(0), sequence, call);
  }

  const int rank_;
  const int size_;
  const std::vector<int> leader_of_;  // of each rank's host
  const Circle host_;
  const Circle leaders_;   // no backend in ranks that do not lead
  const Circle everyone_;  // for messages between hosts
};

base::Status make_part(Circle& part, const BackendOptions& options, std::string_view suffix,
                       const base::Deadline& deadline,
                       base::Result<std::unique_ptr<Backend>> (*make)(const BackendOptions&, const base::Deadline&)) {
  BackendOptions own = options;
  own.name = fmt::format("{}/{}", options.name, suffix);
  own.rank = part.own;
  own.size = static_cast<int>(part.ranks.size());
  YOKE_TRY(part.backend, make(own, deadline));
  return {};
}

}  // namespace

base::Result<std::unique_ptr<Backend>> make_hierarchical_backend(const BackendOptions& options,
                                                                 const std::vector<std::string>& hosts,
                                                                 const base::Deadline& deadline) {
  std::map<std::string, std::vector<int>> ranks_of;
  for (int rank = 0; rank < options.size; ++rank) ranks_of[hosts[static_cast<std::size_t>(rank)]].push_back(rank);
  std::vector<int> leader_of;
  Circle leaders;
  Circle everyone;
  for (int rank = 0; rank < options.size; ++rank) {
    const int leader = ranks_of[hosts[static_cast<std::size_t>(rank)]].front();
    leader_of.push_back(leader);
    if (leader == rank) leaders.ranks.push_back(rank);
    everyone.ranks.push_back(rank);
  }
  everyone.own = options.rank;
  Circle host{.ranks = ranks_of[hosts[static_cast<std::size_t>(options.rank)]], .own = -1, .backend = nullptr};
  host.own = host.place_of(options.rank);
  YOKE_CHECK(make_part(host, options, fmt::format("host/{}", host.ranks.front()), deadline, make_shm_backend));
  YOKE_CHECK(make_part(everyone, options, "everyone", deadline, make_gloo_backend));
  if (host.own == 0) {
    leaders.own = leaders.place_of(options.rank);
    YOKE_CHECK(make_part(leaders, options, "leaders", deadline, make_gloo_backend));
  }
  return std::unique_ptr<Backend>(std::make_unique<HierarchicalBackend>(
      options.rank, options.size, std::move(leader_of), std::move(host), std::move(leaders), std::move(everyone)));
}

}  // namespace yoke::comm
