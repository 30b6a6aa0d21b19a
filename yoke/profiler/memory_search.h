// The largest number of workers that fits a device: foretold from what one worker takes, and then tried.
#pragma once

#include <cstdint>
#include <functional>

#include "yoke/base/result.h"
#include "yoke/profile/profile.h"

namespace yoke::profiler {

/// How many workers fit `limit` bytes by what one takes; `most` at most. Precondition: parts.worker > 0.
int foretell_workers(const profile::MemoryParts& parts, std::int64_t limit, int most);

struct MemoryAnswer {
  int workers = 0;
  bool verified = false;  // so many were seen to fit, and one more not to
  bool capped = false;    // one more is beyond `most`, and was not tried
};

/// Corrects the forecast by trying: `fits` says whether so many workers run. At most `most` workers.
base::Result<MemoryAnswer> verify_workers(int foretold, int most, const std::function<base::Result<bool>(int)>& fits);

}  // namespace yoke::profiler
