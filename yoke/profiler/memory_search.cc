#include "yoke/profiler/memory_search.h"

#include <algorithm>

namespace yoke::profiler {

int foretell_workers(const profile::MemoryParts& parts, std::int64_t limit, int most) {
  const std::int64_t once = parts.weights + parts.gradients + parts.optimizer + parts.buffers + parts.passes;
  if (parts.building > limit || once + parts.worker > limit) return 0;
  return static_cast<int>(std::min<std::int64_t>((limit - once) / parts.worker, most));
}

base::Result<MemoryAnswer> verify_workers(int foretold, int most, const std::function<base::Result<bool>(int)>& fits) {
  int workers = std::clamp(foretold, 1, most);
  bool refused = false;  // one more than `workers`
  while (workers > 0) {
    YOKE_TRY(const bool fit, fits(workers));
    if (fit) break;
    refused = true;
    --workers;
  }
  while (!refused && workers < most) {
    YOKE_TRY(const bool more, fits(workers + 1));
    if (more) ++workers;
    refused = !more;
  }
  return MemoryAnswer{.workers = workers, .verified = workers > 0 && refused, .capped = !refused};
}

}  // namespace yoke::profiler
