#include "yoke/plan/cost/batch_cost.h"

namespace yoke::plan {

std::string_view to_string(Sync sync) {
  return sync == Sync::kOverlap ? "overlap" : "sequential";
}

}  // namespace yoke::plan
