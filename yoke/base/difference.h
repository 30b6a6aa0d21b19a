// Where two texts that should be the same begin to differ.
#pragma once

#include <string>
#include <string_view>

namespace yoke::base {

/// `line 3, `a: 1` and `a: 2``. Precondition: they differ.
std::string first_difference(std::string_view one, std::string_view other);

}  // namespace yoke::base
