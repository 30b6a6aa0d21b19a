#include "yoke/comm/nccl/nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <tuple>
#include <utility>

#include "yoke/base/mutex.h"
#include "yoke/base/thread.h"
#include "yoke/comm/nccl/link.h"

// Collectives run on one communicator of all ranks. Ahead of each, the ranks gather each other's signatures on it: a
// tiny all-gather, tens of microseconds. The alternative, comparing through the store, would cost a round trip over
// TCP.
//
// NCCL's sends and receives block the device and have no tags, so messages get a communicator of two ranks and a thread
// for each direction between two ranks that talk, made when the first message starts. Messages of one direction must
// be received in the order sent, whatever their tags; a header tells when they are not.

namespace yoke::comm {
namespace {

/// How long the other side of a first message may take until it starts its own.
constexpr base::Duration kFirstMessageLimit = std::chrono::minutes(10);

struct Header {
  Signature signature;
  std::uint64_t tag = 0;
};

template <typename Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

base::Result<ncclUniqueId> share_id(Store& store, const std::string& key, bool first, const base::Deadline& deadline) {
  ncclUniqueId id{};
  if (first) {
    const ncclResult_t code = ncclGetUniqueId(&id);
    if (code != ncclSuccess) return base::peer_error(fmt::format("NCCL: {}", ncclGetErrorString(code)));
    YOKE_CHECK(store.set(key, std::string_view(id.internal, sizeof(id.internal)), deadline));
    return id;
  }
  YOKE_TRY(const std::string text, store.get(key, deadline));
  if (text.size() != sizeof(id.internal)) {
    return base::peer_error(
        fmt::format("`{}` holds {} bytes where an id of NCCL's has {}; all ranks need the same NCCL", key, text.size(),
                    sizeof(id.internal)));
  }
  std::memcpy(id.internal, text.data(), text.size());
  return id;
}

/// What all parts of one rank's backend share.
struct Shared {
  std::string name;
  int rank = 0;
  int device = 0;
  const base::Clock& clock;
  std::unique_ptr<Store> store;  // a client of our own: it outlives the making
  std::atomic<bool> interrupted{false};
};

/// A message that waits for its turn or has had it.
struct Job {
  Op op;
  bool done = false;
  Outcome outcome = {};
};

/// The messages of one direction between this rank and a peer, moved one after another by a thread of its own.
class Direction {
 public:
  Direction(std::shared_ptr<Shared> shared, OpKind kind, int peer)
      : shared_(std::move(shared)),
        kind_(kind),
        peer_(peer),
        mover_("nccl-messages", [this](const std::stop_token&) { return move_all(); }) {}

  ~Direction() {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  Direction(const Direction&) = delete;
  Direction& operator=(const Direction&) = delete;

  std::shared_ptr<Job> add(const Op& op) {
    auto job = std::make_shared<Job>(Job{.op = op});
    base::MutexLock lock(mutex_);
    jobs_.push_back(job);
    changed_.notify_all();
    return job;
  }

  Outcome wait(const Job& job, const Call& call) {
    base::MutexLock lock(mutex_);
    while (!job.done) {
      if (auto trouble = call.ended(peer_)) return trouble;
      changed_.wait(mutex_, base::Deadline::in(std::min(call.left(), kLongestSleep), call.clock()));
    }
    return job.outcome;
  }

  /// Until the job's memory is no longer used: soon, as the backend was interrupted if the job is not done.
  void abandon(const Job& job) {
    base::MutexLock lock(mutex_);
    while (!job.done) changed_.wait(mutex_, base::Deadline::in(kLongestSleep, shared_->clock));
  }

 private:
  base::Status move_all() {
    NcclLink link(shared_->device, shared_->clock);
    Outcome failure;  // the first one is final: what comes after it cannot be in order
    bool open = false;
    for (;;) {
      std::shared_ptr<Job> job;
      {
        base::MutexLock lock(mutex_);
        while (jobs_.empty() && !stopping_) {
          changed_.wait(mutex_, base::Deadline::in(kFirstMessageLimit, shared_->clock));
        }
        if (jobs_.empty()) return {};
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      if (!failure && !std::exchange(open, true)) failure = connect(link);
      if (!failure) failure = move(link, job->op);
      base::MutexLock lock(mutex_);
      job->outcome = failure;
      job->done = true;
      changed_.notify_all();
    }
  }

  Outcome ended() const {
    if (!shared_->interrupted.load(std::memory_order_acquire)) return std::nullopt;
    return Trouble{.kind = Trouble::Kind::kCancelled, .peer = peer_};
  }

  Outcome connect(NcclLink& link) {
    const bool sends = kind_ == OpKind::kSend;
    const int from = sends ? shared_->rank : peer_;
    const int to = sends ? peer_ : shared_->rank;
    const std::string key = fmt::format("{}/nccl/{} to {}", shared_->name, from, to);
    const auto id = share_id(*shared_->store, key, sends, base::Deadline::in(kFirstMessageLimit, shared_->clock));
    if (!id.ok()) return Trouble{.peer = peer_, .detail = id.error().message};
    return link.open(*id, 2, sends ? 0 : 1, [this] { return ended(); });
  }

  Outcome move(NcclLink& link, const Op& op) {
    const auto until = [this] { return ended(); };
    const Header ours{.signature = signature_of(op, 0), .tag = op.tag};
    Header theirs;
    const auto type = nccl_type(op.dtype);
    if (op.kind == OpKind::kSend) {
      const auto send_header = [](std::byte* share, std::byte*, ncclComm_t communicator, cudaStream_t stream) {
        return ncclSend(share, sizeof(Header), ncclUint8, 1, communicator, stream);
      };
      if (auto trouble = link.exchange(bytes_of(ours), {}, send_header, until)) return at_peer(*std::move(trouble));
    } else {
      const auto receive_header = [](std::byte*, std::byte* all, ncclComm_t communicator, cudaStream_t stream) {
        return ncclRecv(all, sizeof(Header), ncclUint8, 0, communicator, stream);
      };
      const auto room = std::as_writable_bytes(std::span(&theirs, 1));
      if (auto trouble = link.exchange({}, room, receive_header, until)) return at_peer(*std::move(trouble));
      if (theirs.signature != ours.signature) return mismatch(peer_, ours.signature, theirs.signature);
      if (theirs.tag != ours.tag) {
        return Trouble{
            .kind = Trouble::Kind::kMismatch,
            .peer = peer_,
            .detail = fmt::format("sent tag {} where this rank expected tag {}; NCCL delivers messages between "
                                  "two ranks in the order sent only",
                                  theirs.tag, ours.tag)};
      }
    }
    if (op.count == 0) return std::nullopt;
    const auto move_data = [&](ncclComm_t communicator, cudaStream_t stream) {
      return op.kind == OpKind::kSend ? ncclSend(op.data, op.count, type, 1, communicator, stream)
                                      : ncclRecv(op.data, op.count, type, 0, communicator, stream);
    };
    if (auto trouble = link.run(move_data, until)) return at_peer(*std::move(trouble));
    return std::nullopt;
  }

  Trouble at_peer(Trouble trouble) const {
    trouble.peer = peer_;
    return trouble;
  }

  const std::shared_ptr<Shared> shared_;
  const OpKind kind_;
  const int peer_;
  base::Mutex mutex_;
  base::Condition changed_;
  std::deque<std::shared_ptr<Job>> jobs_ YOKE_GUARDED_BY(mutex_);
  bool stopping_ YOKE_GUARDED_BY(mutex_) = false;
  base::Worker mover_;  // last: it uses everything above
};

class NcclTransfer final : public Transfer {
 public:
  NcclTransfer(std::shared_ptr<Direction> direction, const Op& op)
      : direction_(std::move(direction)), job_(direction_->add(op)) {}
  ~NcclTransfer() override { direction_->abandon(*job_); }

  Outcome wait(const Call& call) override { return direction_->wait(*job_, call); }

 private:
  const std::shared_ptr<Direction> direction_;
  const std::shared_ptr<Job> job_;
};

class NcclBackend final : public Backend {
 public:
  NcclBackend(std::shared_ptr<Shared> shared, int size)
      : shared_(std::move(shared)), size_(size), link_(shared_->device, shared_->clock) {}
  ~NcclBackend() override { interrupt(); }

  Outcome open(const ncclUniqueId& id, const base::Deadline& deadline) {
    return link_.open(id, size_, shared_->rank, [&]() -> Outcome {
      if (!deadline.passed(shared_->clock)) return std::nullopt;
      return Trouble{.kind = Trouble::Kind::kTimedOut, .detail = "not every rank came in time"};
    });
  }

  std::string_view name() const override { return "nccl"; }

  Outcome run(const Op& op, std::uint64_t sequence, const Call& call) override {
    call.wait_for(-1);
    const Ended ended = [&]() -> Outcome {
      if (shared_->interrupted.load(std::memory_order_acquire)) return Trouble{.kind = Trouble::Kind::kCancelled};
      return call.ended(-1);
    };
    if (auto trouble = compare(signature_of(op, sequence), ended)) return trouble;
    if (op.count == 0 || op.kind == OpKind::kBarrier) return std::nullopt;
    return link_.run([&](ncclComm_t communicator, cudaStream_t stream) { return start(op, communicator, stream); },
                     ended);
  }

  std::unique_ptr<Transfer> start(const Op& op) override {
    base::MutexLock lock(mutex_);
    auto& direction = directions_[{op.kind, op.peer}];
    if (!direction) direction = std::make_shared<Direction>(shared_, op.kind, op.peer);
    return std::make_unique<NcclTransfer>(direction, op);
  }

  void interrupt() override {
    shared_->interrupted.store(true, std::memory_order_release);
    shared_->store->interrupt();
  }

 private:
  /// All ranks have called this collective once this returns.
  Outcome compare(const Signature& ours, const Ended& ended) {
    std::vector<Signature> all(static_cast<std::size_t>(size_));
    const auto gather = [](std::byte* share, std::byte* everything, ncclComm_t communicator, cudaStream_t stream) {
      return ncclAllGather(share, everything, sizeof(Signature), ncclUint8, communicator, stream);
    };
    const auto room = std::as_writable_bytes(std::span(all));
    if (auto trouble = link_.exchange(bytes_of(ours), room, gather, ended)) return trouble;
    for (int peer = 0; peer < size_; ++peer) {
      const Signature& theirs = all[static_cast<std::size_t>(peer)];
      if (theirs != ours) return mismatch(peer, ours, theirs);
    }
    return std::nullopt;
  }

  ncclResult_t start(const Op& op, ncclComm_t communicator, cudaStream_t stream) const {
    const auto type = nccl_type(op.dtype);
    const auto reduction = nccl_reduction(op.reduction);
    const auto at = [&](const Part& part) { return op.data + part.begin * size_of(op.dtype); };
    const Part own = part_of(op.count, size_, shared_->rank);
    const bool even = op.count % static_cast<std::size_t>(size_) == 0;
    switch (op.kind) {
      case OpKind::kAllReduce:
        return ncclAllReduce(op.data, op.data, op.count, type, reduction, communicator, stream);
      case OpKind::kBroadcast:
        return ncclBroadcast(op.data, op.data, op.count, type, op.peer, communicator, stream);
      case OpKind::kReduceScatter:
        if (even) return ncclReduceScatter(op.data, at(own), own.count, type, reduction, communicator, stream);
        return for_parts(op, [&](const Part& part, int root) {
          return ncclReduce(at(part), at(part), part.count, type, reduction, root, communicator, stream);
        });
      case OpKind::kAllGather:
        if (even) return ncclAllGather(at(own), op.data, own.count, type, communicator, stream);
        return for_parts(op, [&](const Part& part, int root) {
          return ncclBroadcast(at(part), at(part), part.count, type, root, communicator, stream);
        });
      case OpKind::kBarrier:
      case OpKind::kSend:
      case OpKind::kReceive:
        break;
    }
    return ncclInvalidArgument;
  }

  /// NCCL scatters and gathers equal parts only; unequal ones are one op each, in one group.
  template <typename Start>
  ncclResult_t for_parts(const Op& op, Start start_part) const {
    for (int root = 0; root < size_; ++root) {
      const Part part = part_of(op.count, size_, root);
      const ncclResult_t result = part.count == 0 ? ncclSuccess : start_part(part, root);
      if (result != ncclSuccess && result != ncclInProgress) return result;
    }
    return ncclSuccess;
  }

  const std::shared_ptr<Shared> shared_;
  const int size_;
  NcclLink link_;  // used by run() alone
  base::Mutex mutex_;
  std::map<std::tuple<OpKind, int>, std::shared_ptr<Direction>> directions_ YOKE_GUARDED_BY(mutex_);
};

/// The number of CUDA devices, or why there are none.
base::Result<int> count_devices() {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code == cudaSuccess && devices > 0) return devices;
  return base::input_error(fmt::format("there is no CUDA device on this machine ({}); use another backend",
                                       code == cudaSuccess ? "none is listed" : cudaGetErrorString(code)));
}

}  // namespace

base::Result<std::unique_ptr<Backend>> make_nccl_backend(const BackendOptions& options,
                                                         const base::Deadline& deadline) {
  YOKE_TRY([[maybe_unused]] const int devices, count_devices());
  int device = 0;
  if (const auto trouble = translate_cuda(cudaGetDevice(&device))) return base::peer_error(trouble->detail);
  YOKE_TRY(auto store, options.store->another(deadline));
  std::shared_ptr<Shared> shared(new Shared{.name = options.name,
                                            .rank = options.rank,
                                            .device = device,
                                            .clock = *options.clock,
                                            .store = std::move(store)});
  const std::string key = options.name + "/nccl/id";
  YOKE_TRY(const ncclUniqueId id, share_id(*options.store, key, options.rank == 0, deadline));
  auto backend = std::make_unique<NcclBackend>(std::move(shared), options.size);
  if (const auto trouble = backend->open(id, deadline)) return base::peer_error(trouble->detail);
  return std::unique_ptr<Backend>(std::move(backend));
}

BackendInfo nccl_info() {
  const auto devices = count_devices();
  return {.name = "nccl",
          .available = devices.ok(),
          .detail = fmt::format("NCCL {}.{}.{}, {}", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH,
                                devices.ok() ? fmt::format("{} CUDA devices", *devices) : devices.error().message)};
}

}  // namespace yoke::comm
