// The engine of a build without libtorch.
#include "yoke/engine/rank.h"

namespace yoke::engine {

int gpu_count() {
  return 0;
}

void select_device(const DeviceSpec& /*device*/) {}

base::Result<RankResult> train_rank(const RankOptions& options, std::unique_ptr<comm::Group> group, Observer& observer,
                                    const base::Clock& clock) {
  static_cast<void>(options);
  static_cast<void>(observer);
  static_cast<void>(clock);
  YOKE_CHECK(group->close());
  return base::input_error(
      "this build has no libtorch: it can plan but not train; run ./setup.sh, then build the "
      "release preset");
}

}  // namespace yoke::engine
