#include "yoke/comm/mpi/mpi.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <utility>

#include "yoke/base/mutex.h"
#include "yoke/comm/message/headed_transport.h"
#include "yoke/comm/message/message_backend.h"
#include "yoke/comm/mpi/lane.h"
#include "yoke/comm/poll.h"

// MPI is one for the process, so one lock guards all calls of it. None of them blocks: what takes time is started and
// then tested again and again, and any test moves everything that this process has under way. So MPI need not
// support several threads at once, every wait can be cancelled, and no wait holds up another.

namespace yoke::comm {
namespace {

/// MPI counts in int; what is larger goes in several pieces.
constexpr std::size_t kPieceBytes = std::size_t{1} << 30U;
/// How long ranks that are started together may be apart when they first meet.
constexpr base::Duration kStartLimit = std::chrono::minutes(2);

/// What MPI keeps for the whole process.
struct Process {
  base::Mutex mutex;
  bool failed YOKE_GUARDED_BY(mutex) = false;  // a wait was given up: MPI_Finalize might wait for ever
};
Process& process() {
  static Process the_process;
  return the_process;
}

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

/// Waits for something that all ranks do together; there is nobody to cancel it.
base::Status finish(MPI_Request request, const char* what, const base::Deadline& deadline, const base::Clock& clock) {
  const auto test = [&](Outcome& trouble) {
    base::MutexLock lock(process().mutex);
    int done = 0;
    const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) trouble = Trouble{.detail = text_of(code)};
    return code != MPI_SUCCESS || done != 0;
  };
  const auto ended = [&]() -> Outcome {
    if (!deadline.passed(clock)) return std::nullopt;
    return Trouble{.kind = Trouble::Kind::kTimedOut, .detail = "not every rank came in time"};
  };
  if (const auto trouble = poll(test, ended, clock)) {
    base::MutexLock lock(process().mutex);
    process().failed = true;
    return base::peer_error(fmt::format("{}: {}", what, trouble->detail));
  }
  return {};
}

/// The communicators of one group. Shared by the transport and its transfers.
class Lines {
 public:
  explicit Lines(const base::Clock& clock) : clock_(clock) { communicators_.fill(MPI_COMM_NULL); }
  ~Lines() {
    base::MutexLock lock(process().mutex);
    if (process().failed) return;  // freeing them might wait for what will never end
    for (auto& communicator : communicators_) {
      if (communicator != MPI_COMM_NULL) MPI_Comm_free(&communicator);
    }
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  /// Every rank calls it, for its groups in the same order.
  base::Status open(const base::Deadline& deadline) {
    for (auto& communicator : communicators_) {
      MPI_Request request = MPI_REQUEST_NULL;
      {
        base::MutexLock lock(process().mutex);
        const int code = MPI_Comm_idup(MPI_COMM_WORLD, &communicator, &request);
        if (code != MPI_SUCCESS) return base::peer_error(fmt::format("MPI_Comm_idup: {}", text_of(code)));
      }
      YOKE_CHECK(finish(request, "MPI_Comm_idup", deadline, clock_));
      base::MutexLock lock(process().mutex);
      MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    }
    return {};
  }

  MPI_Comm communicator(const MpiLane& lane) const {
    return communicators_[static_cast<std::size_t>(lane.communicator)];
  }
  void interrupt() { interrupted_.store(true, std::memory_order_release); }
  bool interrupted() const { return interrupted_.load(std::memory_order_acquire); }

 private:
  const base::Clock& clock_;
  std::array<MPI_Comm, kMpiCommunicators> communicators_{};
  std::atomic<bool> interrupted_{false};
};

enum class Direction { kSend, kReceive };

/// A message that MPI was asked to move, in pieces if it is very large.
class MpiTransfer final : public Transfer {
 public:
  MpiTransfer(std::shared_ptr<Lines> lines, Direction direction, int peer, const Lane& lane,
              std::span<std::byte> memory)
      : lines_(std::move(lines)), direction_(direction), peer_(peer), exact_(lane.kind != Lane::Kind::kHeaded) {
    const MpiLane on = mpi_lane(lane);
    const MPI_Comm communicator = lines_->communicator(on);
    base::MutexLock lock(process().mutex);
    do {
      const auto piece = memory.first(std::min(memory.size(), kPieceBytes));
      memory = memory.subspan(piece.size());
      const int count = static_cast<int>(piece.size());
      MPI_Request request = MPI_REQUEST_NULL;
      const int code = direction == Direction::kSend
                           ? MPI_Isend(piece.data(), count, MPI_BYTE, peer, on.tag, communicator, &request)
                           : MPI_Irecv(piece.data(), count, MPI_BYTE, peer, on.tag, communicator, &request);
      if (code != MPI_SUCCESS) {
        failure_ = Trouble{.peer = peer, .detail = text_of(code)};
        return;
      }
      pieces_.push_back({request, count});
    } while (!memory.empty());
  }

  ~MpiTransfer() override {
    base::MutexLock lock(process().mutex);
    for (auto& piece : pieces_) {
      if (piece.request == MPI_REQUEST_NULL) continue;
      int done = 0;
      MPI_Test(&piece.request, &done, MPI_STATUS_IGNORE);
      if (done != 0) continue;
      // A receive that no message has come for can be taken back. Anything else goes on, if it ever does, without us.
      if (direction_ == Direction::kReceive) {
        MPI_Cancel(&piece.request);
        MPI_Test(&piece.request, &done, MPI_STATUS_IGNORE);
      }
      if (done == 0) MPI_Request_free(&piece.request);
      process().failed = true;
    }
  }

  Outcome wait(const Call& call) override {
    for (auto& piece : pieces_) {
      const auto ended = [&]() -> Outcome {
        if (lines_->interrupted()) return Trouble{.kind = Trouble::Kind::kCancelled, .peer = peer_};
        return call.ended(peer_);
      };
      const auto test_piece = [&](Outcome& trouble) { return test(piece, trouble); };
      if (auto trouble = poll(test_piece, ended, call.clock())) return give_up(*std::move(trouble));
    }
    return failure_;
  }

 private:
  struct Piece {
    MPI_Request request;
    int count;
  };

  static Trouble give_up(Trouble trouble) {
    base::MutexLock lock(process().mutex);
    process().failed = true;
    return trouble;
  }

  bool test(Piece& piece, Outcome& trouble) {
    base::MutexLock lock(process().mutex);
    int done = 0;
    MPI_Status status{};
    const int code = MPI_Test(&piece.request, &done, &status);
    if (code != MPI_SUCCESS) {
      int kind = MPI_SUCCESS;
      MPI_Error_class(code, &kind);
      trouble = kind == MPI_ERR_TRUNCATE ? differs("more", piece) : Trouble{.peer = peer_, .detail = text_of(code)};
      return true;
    }
    if (done != 0 && direction_ == Direction::kReceive && exact_) {
      int count = 0;
      MPI_Get_count(&status, MPI_BYTE, &count);
      if (count != piece.count) trouble = differs(std::to_string(count), piece);
    }
    return done != 0;
  }

  Trouble differs(std::string_view sent, const Piece& piece) const {
    return {.kind = Trouble::Kind::kMismatch,
            .peer = peer_,
            .detail = fmt::format("sent {} bytes where this rank expected {}", sent, piece.count)};
  }

  const std::shared_ptr<Lines> lines_;
  const Direction direction_;
  const int peer_;
  const bool exact_;  // whether the message has the size of the memory
  std::vector<Piece> pieces_;
  Outcome failure_;
};

class MpiWire final : public Wire {
 public:
  explicit MpiWire(std::shared_ptr<Lines> lines) : lines_(std::move(lines)) {}

  std::string_view name() const override { return "mpi"; }
  void interrupt() override { lines_->interrupt(); }

  std::unique_ptr<Transfer> send(int to, const Lane& lane, std::span<const std::byte> bytes) override {
    // A send only reads the memory.
    const std::span<std::byte> memory(const_cast<std::byte*>(bytes.data()), bytes.size());
    return std::make_unique<MpiTransfer>(lines_, Direction::kSend, to, lane, memory);
  }
  std::unique_ptr<Transfer> receive(int from, const Lane& lane, std::span<std::byte> bytes) override {
    return std::make_unique<MpiTransfer>(lines_, Direction::kReceive, from, lane, bytes);
  }

 private:
  const std::shared_ptr<Lines> lines_;
};

class Session final : public MpiSession {
 public:
  Session() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  ~Session() override {
    base::MutexLock lock(process().mutex);
    // After a failure some ranks may never come here, and mpirun ends the job once this process exits.
    if (!process().failed) MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  base::Result<std::string> share(std::string_view text) override {
    std::uint64_t length = text.size();
    YOKE_CHECK(broadcast(&length, sizeof(length)));
    std::string shared(length, ' ');
    if (rank_ == 0) shared = text;
    YOKE_CHECK(broadcast(shared.data(), length));
    return shared;
  }

 private:
  base::Status broadcast(void* data, std::size_t bytes) const {
    MPI_Request request = MPI_REQUEST_NULL;
    {
      base::MutexLock lock(process().mutex);
      const int code = MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD, &request);
      if (code != MPI_SUCCESS) return base::peer_error(fmt::format("MPI_Ibcast: {}", text_of(code)));
    }
    return finish(request, "MPI_Ibcast", base::Deadline::in(kStartLimit, clock_), clock_);
  }

  const base::SystemClock clock_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

base::Result<std::unique_ptr<MpiSession>> start_mpi() {
  int started = 0;
  MPI_Initialized(&started);
  if (started != 0) return base::input_error("MPI was started before in this process; it can be started once only");
  int level = MPI_THREAD_SINGLE;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  if (code != MPI_SUCCESS) return base::peer_error(fmt::format("MPI does not start: {}", text_of(code)));
  if (level < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    return base::input_error(
        fmt::format("this MPI supports thread level {} only; MPI_THREAD_SERIALIZED ({}) or more is expected", level,
                    static_cast<int>(MPI_THREAD_SERIALIZED)));
  }
  return std::unique_ptr<MpiSession>(std::make_unique<Session>());
}

base::Result<std::unique_ptr<Backend>> make_mpi_backend(const BackendOptions& options, const base::Deadline& deadline) {
  int started = 0;
  int ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (started == 0 || ended != 0) {
    return base::input_error(
        "the mpi backend needs ranks that mpirun or srun has started; use another backend, or mpirun");
  }
  int rank = 0;
  int size = 0;
  void* largest_tag = nullptr;
  int known = 0;
  {
    base::MutexLock lock(process().mutex);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest_tag, &known);
  }
  if (rank != options.rank || size != options.size) {
    return base::input_error(fmt::format("rank {} of {} was asked for but MPI started this process as rank {} of {}",
                                         options.rank, options.size, rank, size));
  }
  if (known == 0 || *static_cast<int*>(largest_tag) < kMpiLargestTag) {
    return base::input_error(fmt::format("this MPI has tags up to {}; {} is expected",
                                         known == 0 ? 0 : *static_cast<int*>(largest_tag), kMpiLargestTag));
  }
  auto lines = std::make_shared<Lines>(*options.clock);
  YOKE_CHECK(lines->open(deadline));
  return make_message_backend(rank, size, make_headed_transport(std::make_unique<MpiWire>(std::move(lines))));
}

BackendInfo mpi_info() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  // `Open MPI v4.1.4, package: ..., ident: ...`
  const std::string_view version(text, static_cast<std::size_t>(length));
  return {.name = "mpi", .available = true, .detail = std::string(version.substr(0, version.find(',')))};
}

}  // namespace yoke::comm
