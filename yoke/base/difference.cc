#include "yoke/base/difference.h"

#include <fmt/format.h>

namespace yoke::base {

std::string first_difference(std::string_view one, std::string_view other) {
  for (int line = 1;; ++line) {
    const auto end = one.find('\n');
    const auto other_end = other.find('\n');
    const auto ours = one.substr(0, end);
    const auto theirs = other.substr(0, other_end);
    if (ours != theirs || end == std::string_view::npos || other_end == std::string_view::npos) {
      return fmt::format("line {}, `{}` and `{}`", line, ours, theirs);
    }
    one.remove_prefix(end + 1);
    other.remove_prefix(other_end + 1);
  }
}

}  // namespace yoke::base
