// What a store holds. Plain data without locks: the in-memory store guards it with a mutex, the TCP server with its one
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace yoke::comm {

struct Board {
  std::map<std::string, std::string, std::less<>> values;
  std::map<std::string, std::int64_t, std::less<>> counters;
  std::map<std::string, std::vector<std::string>, std::less<>> logs;

  /// The entries of a log from an index on; empty if there are none yet.
  std::vector<std::string> entries(std::string_view log, std::size_t from) const {
    const auto found = logs.find(log);
    if (found == logs.end() || found->second.size() <= from) return {};
    return {found->second.begin() + static_cast<std::ptrdiff_t>(from), found->second.end()};
  }
};

/// What a client wants said when it is gone. No will: an empty entry.
struct Will {
  std::string log;
  std::string entry;

  void execute(Board& board) const {
    if (!entry.empty()) board.logs[log].push_back(entry);
  }
};

}  // namespace yoke::comm
