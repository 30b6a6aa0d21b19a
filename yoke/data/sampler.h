// Which samples a worker gets: index arithmetic, a pure function of (seed, epoch, how far the epoch is). It knows no
// devices, so every sample is used exactly once in an epoch whatever happens to batch sizes and machines on the way.
#pragma once

#include <cstdint>
#include <vector>

namespace yoke::data {

/// How far training is. Part of every checkpoint.
struct Cursor {
  std::uint32_t epoch = 0;
  std::int64_t consumed = 0;  // samples of this epoch that steps have used
  std::int64_t step = 0;      // steps since the start of training
  bool operator==(const Cursor&) const = default;
};

/// A step: `workers` workers of `lbs` samples. At the end of an epoch the last workers get fewer, or none.
struct StepShape {
  std::int64_t workers = 1;
  std::int64_t lbs = 1;
};

/// The order of samples in each epoch is a pseudo-random permutation that is computed index by index, in no memory.
/// An immutable value; any thread.
class Sampler {
 public:
  /// Precondition: size > 0.
  Sampler(std::int64_t size, std::uint64_t seed, bool shuffle = true);

  std::int64_t size() const { return size_; }
  /// Which sample is at a position of an epoch. Precondition: 0 <= position < size().
  std::int64_t sample(std::uint32_t epoch, std::int64_t position) const;
  /// The samples of one worker of the step at the cursor; empty when the epoch has none left for it.
  std::vector<std::int64_t> samples(const Cursor& cursor, const StepShape& shape, std::int64_t worker) const;
  /// How many samples the step at the cursor uses, over all workers.
  std::int64_t step_samples(const Cursor& cursor, const StepShape& shape) const;
  /// Of one worker.
  std::int64_t worker_samples(const Cursor& cursor, const StepShape& shape, std::int64_t worker) const;
  /// The cursor after the step: the next epoch begins when this one is used up.
  Cursor advance(const Cursor& cursor, const StepShape& shape) const;
  std::int64_t steps_per_epoch(const StepShape& shape) const;

 private:
  std::int64_t size_;
  std::uint64_t seed_;
  bool shuffle_;
};

}  // namespace yoke::data
