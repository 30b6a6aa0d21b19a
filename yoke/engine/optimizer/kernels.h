// The loops of the optimizers over plain memory: one pass over weights, gradient and state. Free of torch, so that they
// are compiled with options of their own (see CMakeLists.txt).
//
// Every rounding is written out: where torch's own kernels round once for a product and a sum, so does std::fma here,
// and the compiler may not contract on its own. So the result of an element does not depend on the instruction set, on
// how the work is divided, or on its place in a vector. Pure functions on disjoint memory: any thread.
#pragma once

#include <cstdint>

namespace yoke::engine {

/// One block: pointers to its first element in each array. Unused state is null.
struct ElementBlock {
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* first = nullptr;   // momentum, exp_avg
  float* second = nullptr;  // exp_avg_sq
  std::int64_t count = 0;
};

/// The gradient of an element is `sum` times scale, clamped to +-limit.
struct GradientStep {
  float scale = 1;
  float limit = 0;  // infinity: not clamped
};

struct SgdStep {
  GradientStep gradient;
  float decay = 0;
  float momentum = 0;
  bool nesterov = false;
  float lr = 0;
};

/// The running means of the gradient and of its square.
struct MomentStep {
  float beta1 = 0;
  float rest1 = 0;  // 1 - beta1
  float beta2 = 0;
  float rest2 = 0;
  float root2 = 1;  // square root of 1 - beta2^step
  float eps = 0;
};

struct AdamStep {
  GradientStep gradient;
  MomentStep moments;
  float decay = 0;   // added to the gradient
  float shrink = 1;  // the weight is multiplied by it first
  float size = 0;    // lr / (1 - beta1^step)
};

struct LambStep {
  GradientStep gradient;
  MomentStep moments;
  float decay = 0;        // times the weight, added to the direction
  float correction1 = 1;  // 1 - beta1^step
};

/// Squares of weights and of the direction of the update, summed.
struct LambSquares {
  double weights = 0;
  double direction = 0;
};

/// The loops for one instruction set.
struct Kernels {
  void (*sgd)(const ElementBlock&, const SgdStep&);           // without state
  void (*sgd_momentum)(const ElementBlock&, const SgdStep&);  // state: momentum
  void (*adam)(const ElementBlock&, const AdamStep&);         // adamw too
  /// Updates both moments; the weights stay.
  LambSquares (*lamb_moments)(const ElementBlock&, const LambStep&);
  /// Moves the weights by -rate along the direction that the moments give; reads no gradient.
  void (*lamb_move)(const ElementBlock&, const LambStep&, float rate);
  /// The sum of squares of `count` elements; element i goes to the partial sum i % 16.
  double (*squares)(const float*, std::int64_t count);
};

enum class InstructionSet { kBaseline, kAvx2 };

/// Whether this machine (and build) has it.
bool has(InstructionSet set);
/// Precondition: has(set).
const Kernels& kernels(InstructionSet set);
const Kernels& best_kernels();

}  // namespace yoke::engine
