// Where ranks find each other: a small shared board of keys and logs. In memory for ranks that are threads, over TCP
// (tcp_store.h) for ranks that are processes. All functions may be called from any thread; each has a deadline.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"

namespace yoke::comm {

/// One client's view of a store.
class Store {
 public:
  virtual ~Store() = default;

  virtual base::Status set(std::string_view key, std::string_view value, const base::Deadline& deadline) = 0;
  /// Waits until the key has a value.
  virtual base::Result<std::string> get(std::string_view key, const base::Deadline& deadline) = 0;
  /// Adds to a counter that starts at 0 and returns the sum.
  virtual base::Result<std::int64_t> add(std::string_view key, std::int64_t amount, const base::Deadline& deadline) = 0;

  virtual base::Status append(std::string_view log, std::string_view entry, const base::Deadline& deadline) = 0;
  /// The entries of a log from index `from` on; waits for at least one. Empty once the deadline has passed.
  virtual base::Result<std::vector<std::string>> read(std::string_view log, std::size_t from,
                                                      const base::Deadline& deadline) = 0;
  /// Asks the store to append `entry` to `log` when this client goes away without withdraw_will(): what a process
  /// that was killed can no longer say. One will per client; a later one replaces it.
  virtual base::Status leave_will(std::string_view log, std::string_view entry, const base::Deadline& deadline) = 0;
  virtual base::Status withdraw_will(const base::Deadline& deadline) = 0;

  /// Another client of the same store, with a will of its own. Clients wait without holding each other up.
  virtual base::Result<std::unique_ptr<Store>> another(const base::Deadline& deadline) = 0;
  /// Ends this client's present and future waits. Any thread.
  virtual void interrupt() = 0;
  /// The address of this machine that the way to the store starts at; empty if the store is in this process.
  virtual std::string local_address() const { return {}; }
};

/// A store inside this process; it lives as long as its last client.
std::unique_ptr<Store> make_memory_store();

}  // namespace yoke::comm
