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

/// Where it is: part of the state of training.
struct LossScaleState {
  double factor = 1;
  std::int64_t good_steps = 0;  // in a row
  bool operator==(const LossScaleState&) const = default;
};

/// A value. One thread.
class LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options) : options_(options), state_{.factor = options.start} {}

  double factor() const { return state_.factor; }
  const LossScaleState& state() const { return state_; }
  void set(const LossScaleState& state) { state_ = state; }
  /// After the gradient was looked at. Returns whether the step counts.
  bool judge(bool finite) {
    if (!finite) {
      state_ = {.factor = state_.factor / 2};
      return false;
    }
    if (++state_.good_steps >= options_.grow_after) state_ = {.factor = state_.factor * 2};
    return true;
  }

 private:
  LossScaleOptions options_;
  LossScaleState state_;
};

}  // namespace yoke::engine
