// What hosts that run the same command say to each other in the log that all of them write to (host_meeting.h). Plain
// values and pure functions: any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace yoke::cli {

struct HostWord {
  enum class Kind : char {
    kSays = '+',
    kFailed = '!',
    kLost = '-',  // said by the store in its stead
  };
  int rank = 0;
  Kind kind = Kind::kSays;
  std::string phase = {};  // one line
  std::string text = {};   // what it says, or why it failed

  bool operator==(const HostWord&) const = default;
};

/// An entry of the log.
std::string encode(const HostWord& word);
/// Nothing for an entry that none of `hosts` hosts has written.
std::optional<HostWord> decode_host_word(std::string_view entry, int hosts);

}  // namespace yoke::cli
