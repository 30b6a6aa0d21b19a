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
  const int known = foretold >= 1 ? 1 : 0;
  bool tried = false;  // whether `workers` itself was seen to fit
  while (workers > known && !tried) {
    YOKE_TRY(tried, fits(workers));
    if (!tried) --workers;
  }
  if (workers == 0) return MemoryAnswer{.workers = 0, .capped = false};
  const bool came_down = workers < std::clamp(foretold, 1, most);  // then one more was tried, and did not fit
  while (!came_down && workers < most) {
    YOKE_TRY(const bool more, fits(workers + 1));
    if (!more) break;
    ++workers;
  }
  return MemoryAnswer{.workers = workers, .capped = workers == most};
}

}  // namespace yoke::profiler
