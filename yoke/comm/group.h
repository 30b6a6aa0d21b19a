// A group of ranks that compute together. Ops run on some Backend (shared memory, TCP, MPI, ...); what a group adds is
// the same for all: launch order, a deadline on every call, abort() from any thread, and errors that stick and name the
// op, the peer and the time.
//
//   comm::Op op = comm::all_reduce(std::span(gradients));
//   YOKE_CHECK(group->run(op, deadline));                        // blocks
//   comm::Handle handle = group->launch(op, deadline);           // runs while the caller computes
//   YOKE_CHECK(handle.wait());
//
// One thread owns a group: it launches and waits. abort(), failure() and the observers may be called from any thread.
// The first failure is final: every later call returns it. A failure on one rank fails all of them, soon. The memory of
// an op must stay until it was waited for, or until any call has returned the failure.
#pragma once

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

/// Who is who in a group, as rendezvous has found out.
struct Membership {
  std::string name;
  int rank = 0;
  int size = 1;
  std::vector<std::string> labels;  // `node1 pid 4711` for each rank
  int store_rank = 0;               // whose process serves the store: blamed when the store falls silent

  /// `rank 2 (node1 pid 4711)`
  std::string describe(int rank) const;
};

/// An op under way. Copies are the same op. Must not outlive its group.
class Handle {
 public:
  /// Until the op is done, failed or past its deadline. May be called again: same answer.
  base::Status wait();

 private:
  friend class Group;
  struct State;
  std::shared_ptr<State> state_;
};

class Group {
 public:
  /// join() (join.h) makes groups. `watch` and `post` are clients of the store through which ranks tell each other
  /// what went wrong; the group owns them.
  Group(Membership membership, std::unique_ptr<Backend> backend, std::unique_ptr<Store> watch,
        std::unique_ptr<Store> post, const base::Clock& clock);
  /// Frees everything. Without close() before it, the other ranks are told that this one was lost.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const;
  int size() const;
  const std::string& name() const;
  /// `shm`, `gloo`, ...
  std::string_view backend() const;

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
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace yoke::comm
