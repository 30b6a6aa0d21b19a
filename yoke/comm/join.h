// How a process becomes a rank: rendezvous over a store, choice of the backend, and the group at the end of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/comm/backend.h"
#include "yoke/comm/decorate/shaped.h"
#include "yoke/comm/group.h"
#include "yoke/comm/store/store.h"

namespace yoke::comm {

/// What the makers of all backends are given.
struct BackendOptions {
  std::string name;  // unique in the store; also names what outlives a call, e.g. a shared-memory segment
  int rank = 0;
  int size = 1;
  Store* store = nullptr;  // for the time of making only
  std::string interface;   // gloo: network interface or address to use; empty: the one that routes to the store
  const base::Clock* clock = nullptr;
};

struct JoinOptions {
  std::string name;  // used once in the life of a store; put a generation number into it
  int rank = 0;
  int size = 1;
  std::string backend = "auto";  // auto: shm on one host, gloo across hosts, both together where hosts have several
  std::string host;              // who shares memory with whom; empty: this machine's own identity
  std::string interface;
  int store_rank = 0;  // the rank whose process serves the store: blamed when the store falls silent; or kElsewhere
  /// Messages of this rank go at this pace, also those of its subgroups; each group has a link of its own.
  std::optional<LinkShape> link = std::nullopt;
  /// Puts decorators (shaped.h, faulty.h) around the backend.
  std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)> decorate = nullptr;
};

/// Every rank calls it. Fails, naming the rank, when one does not come before the deadline, comes twice, or differs in
/// size or backend. `clock` must outlive the group; the store need not.
base::Result<std::unique_ptr<Group>> join(const JoinOptions& options, Store& store, const base::Deadline& deadline,
                                          const base::Clock& clock);

/// A backend's name and whether this build has it (`detail` says what is missing, or the library's version).
struct BackendInfo {
  std::string name;
  bool available = false;
  std::string detail;
};
std::vector<BackendInfo> list_backends();

/// Who shares memory with whom: the same text on two processes if and only if they see the same /dev/shm.
std::string host_identity();

}  // namespace yoke::comm
