#include "yoke/cli/host_word.h"

#include <fmt/format.h>

#include "yoke/base/units.h"

namespace yoke::cli {

std::string encode(const HostWord& word) {
  return fmt::format("{} {}{}\n{}", word.rank, static_cast<char>(word.kind), word.phase, word.text);
}

std::optional<HostWord> decode_host_word(std::string_view entry, int hosts) {
  const auto line = entry.find('\n');
  const auto blank = entry.substr(0, line).find(' ');
  if (line == std::string_view::npos || blank == std::string_view::npos || blank + 1 == line) return std::nullopt;
  const auto rank = base::parse_integer(entry.substr(0, blank));
  if (!rank.ok() || *rank < 0 || *rank >= hosts) return std::nullopt;
  const auto kind = static_cast<HostWord::Kind>(entry[blank + 1]);
  if (kind != HostWord::Kind::kSays && kind != HostWord::Kind::kFailed && kind != HostWord::Kind::kLost) {
    return std::nullopt;
  }
  return HostWord{.rank = static_cast<int>(*rank),
                  .kind = kind,
                  .phase = std::string(entry.substr(blank + 2, line - blank - 2)),
                  .text = std::string(entry.substr(line + 1))};
}

}  // namespace yoke::cli
