// Where figures come from. What was computed from data sheets must never pass for a measurement, so it is part of the
// values and of their files.
#pragma once

#include <string_view>

namespace yoke::profile {

enum class Source { kMeasured, kEstimate };

/// `measured`, `estimate`.
constexpr std::string_view to_string(Source source) {
  return source == Source::kEstimate ? "estimate" : "measured";
}

}  // namespace yoke::profile
