// What the name of a device type tells. The one place that says so: types are otherwise names that only have to be
// equal.
#pragma once

#include <string_view>

namespace yoke::cluster {

/// Whether devices of this type are processors, which compute with the cores and live off the memory of their machine:
/// `cpu`, or a name that ends in `-cpu` (`slow-cpu`). All others are accelerators with a memory of their own.
inline bool is_processor(std::string_view type) {
  return type == "cpu" || type.ends_with("-cpu");
}

}  // namespace yoke::cluster
