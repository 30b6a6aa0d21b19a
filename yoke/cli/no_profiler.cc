// The profiler of a build without libtorch.
#include "yoke/profiler/profiler.h"

namespace yoke::profiler {
namespace {

base::Error no_torch() {
  return base::input_error(
      "this build has no libtorch: it can plan but not measure; run ./setup.sh, then build the release preset");
}

}  // namespace

base::Result<Report> measure(const Request& /*request*/, Helpers& /*helpers*/, Observer& /*observer*/,
                             const base::Clock& /*clock*/) {
  return no_torch();
}

base::Result<Trial> try_steps(const Subject& /*subject*/, int /*lbs*/, int /*vsw*/, std::int64_t /*memory_bytes*/,
                              const base::Clock& /*clock*/) {
  return no_torch();
}

base::Status keep_busy(const Subject& /*subject*/, int /*lbs*/, const base::Clock& /*clock*/) {
  return no_torch();
}

}  // namespace yoke::profiler
