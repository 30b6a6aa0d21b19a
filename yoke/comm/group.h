// A group of ranks that compute together. Ops run on some Backend (shared memory, TCP, MPI, ...); what a group adds is
// the same for all: launch order, a deadline on every call, abort() from any thread, and errors that stick and name the
// op, the peer and the time.
//
//   comm::Op op = comm::all_reduce(std::span(gradients));
//   YOKE_CHECK(group->run(op, deadline));                        // blocks
//   comm::Handle handle = group->launch(op, deadline);           // runs while the caller computes
//   YOKE_CHECK(handle.wait());
//
// One thread owns a group: it launches and waits. Messages may be launched by other threads too, each waited for by the
// thread that launched it or one at a time after it. abort(), failure() and the observers may be called from any
// thread. The first failure is final: every later call returns it. A failure on one rank fails all of them, soon. The
// memory of an op must stay until it was waited for, or until any call has returned the failure; if another thread is
// waiting for it just then, until that thread has returned.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/comm/op.h"

namespace yoke::comm {

class Backend;
class Group;
class Store;

/// Why a group can no longer be used.
struct GroupFailure {
  std::vector<int> ranks;  // who caused it, as far as is known: lost, silent, absent or in disagreement
  base::Error error;
};

/// The store_rank of a group whose store is served by a process outside it.
inline constexpr int kElsewhere = -1;

/// Who is who in a group, as rendezvous has found out.
struct Membership {
  std::string name;
  int rank = 0;
  int size = 1;
  std::vector<std::string> labels;  // `node1 pid 4711` for each rank
  int store_rank = 0;               // whose process serves the store: blamed when it falls silent; or kElsewhere

  /// `rank 2 (node1 pid 4711)`
  std::string describe(int rank) const;
};

/// An op under way. Copies are the same op. Must not outlive its group.
class Handle {
 public:
  /// Until the op is done, failed or past its deadline. May be called again: same answer.
  base::Status wait();
  /// The same for a thread that waits ahead of need: meanwhile this rank is not said to wait for the peer.
  base::Status wait_ahead();

 private:
  friend class Group;
  struct State;
  std::shared_ptr<State> state_;
};

class Group {
 public:
  /// Makes a group of some ranks of this one; each of them calls it.
  using Regroup = std::function<base::Result<std::unique_ptr<Group>>(
      const std::string& name, const std::vector<int>& ranks, const base::Deadline& deadline)>;

  /// join() (join.h) makes groups. `watch` and `post` are clients of the store through which ranks tell each other
  /// what went wrong; the group owns them.
  Group(Membership membership, std::unique_ptr<Backend> backend, std::unique_ptr<Store> watch,
        std::unique_ptr<Store> post, const base::Clock& clock, Regroup regroup = nullptr);
  /// Frees everything. Without close() before it, the other ranks are told that this one was lost.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const;
  int size() const;
  const std::string& name() const;
  /// `shm`, `gloo`, ...
  std::string_view backend() const;
  /// Whether ops may be on the memory of a GPU (Op::on_device).
  bool takes_device_memory() const;

  /// A group of its own for `ranks` of this one, in the order given: ranks[i] is rank i there. Just those ranks call
  /// it, with a name that was not used in this group before. It has this group's host, interface and decorators; its
  /// backend is chosen for the hosts of its ranks. A failure of one group is none of the other: whoever holds both
  /// passes it on by abort().
  base::Result<std::unique_ptr<Group>> subgroup(const std::string& name, const std::vector<int>& ranks,
                                                const base::Deadline& deadline);

  /// Runs an op now, in this thread if nothing is queued before it.
  base::Status run(const Op& op, const base::Deadline& deadline);
  /// Starts an op. Collectives run one after another in the order launched; messages run beside them.
  Handle launch(const Op& op, const base::Deadline& deadline);

  /// Ends everything under way on all ranks with an error that names this rank and `reason`. Any thread.
  void abort(std::string_view reason);
  std::optional<GroupFailure> failure() const;

  /// Leaves in good order: nothing may be under way. Other ranks' calls that need this one fail and say that it left.
  base::Status close();

 private:
  friend class Handle;
  friend class Waiting;
  struct Core;
  std::unique_ptr<Core> core_;
};

/// As long as it lives, this rank is said to wait for `peer`: for a thread that now needs what another one waits for
/// ahead. Who waits for whom tells which rank holds up all others. Any thread.
class Waiting {
 public:
  Waiting(Group& group, int peer);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Group::Core& core_;
  const int peer_;
};

}  // namespace yoke::comm
