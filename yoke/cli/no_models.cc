// The models of a build without libtorch.
#include "yoke/models/op_counts.h"

namespace yoke::models {

base::Result<ModelCount> count_ops(const CountRequest& request) {
  return base::input_error("cannot count what " + request.model +
                           " computes: this build has no libtorch; run ./setup.sh, then build the release preset");
}

}  // namespace yoke::models
