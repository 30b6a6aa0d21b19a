// Dynamic loss scaling for fp16, whose gradients vanish below 6e-8: the loss is multiplied before the backward pass and
// the gradient divided after it. When a gradient overflows, the step is left out and the factor halved; after many good
// steps it is doubled. All ranks see the same reduced gradient, so they decide alike.
#pragma once

#include <cstdint>

namespace yoke::engine {

struct LossScaleOptions {
  double start = 65536;
  std::int64_t grow_after = 2000;  // good steps in a row
};

/// A value. One thread.
class LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options) : options_(options), factor_(options.start) {}

  double factor() const { return factor_; }
  /// After the gradient was looked at. Returns whether the step counts.
  bool judge(bool finite) {
    if (!finite) {
      factor_ /= 2;
      good_ = 0;
      return false;
    }
    if (++good_ >= options_.grow_after) {
      factor_ *= 2;
      good_ = 0;
    }
    return true;
  }

 private:
  LossScaleOptions options_;
  double factor_;
  std::int64_t good_ = 0;
};

}  // namespace yoke::engine
