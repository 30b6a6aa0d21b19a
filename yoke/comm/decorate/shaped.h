// A backend behind a slower link than it has: for benchmarks and tests of plans on networks that are not here.
#pragma once

#include <memory>

#include "yoke/comm/backend.h"

namespace yoke::comm {

/// What one rank's link does. A collective takes at least what rings take: every rank sends its data, cut into `size`
/// parts, round the ring once for each of reduce and gather.
struct LinkShape {
  base::Duration latency{};
  double bytes_per_second = 0;  // 0: unlimited

  base::Duration transfer_time(std::size_t bytes) const;
  base::Duration collective_time(const Op& op, int size) const;
};

/// Messages of one rank leave one after another at the link's speed and arrive a latency later. `clock` must outlive
/// the result.
std::unique_ptr<Backend> make_shaped_backend(std::unique_ptr<Backend> inner, int size, LinkShape shape,
                                             const base::Clock& clock);

}  // namespace yoke::comm
