// Random numbers that depend on who asks and on nothing else. A stream is named by (seed, epoch, step, worker,
// purpose); two streams with different names are independent, and the same name gives the same numbers on any device,
// thread or cluster shape. That is what makes a virtual worker's samples, augmentation and dropout independent of
// where it runs. The generator is Philox4x32-10 (Salmon et al., SC'11): a block cipher on a counter, no hidden state.
#pragma once

#include <array>
#include <cstdint>

namespace yoke::base {

/// What a worker draws numbers for. Values are part of the reproducibility promise: never renumber.
enum class Purpose : std::uint32_t {
  kShuffle = 1,
  kAugment = 2,
  kDropout = 3,
  kInit = 4,
  kSimulate = 5,
  kTest = 6,
};

struct StreamName {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;
  std::uint32_t worker = 0;
  Purpose purpose = Purpose::kTest;
  bool operator==(const StreamName&) const = default;
};

/// One Philox4x32-10 block. A pure function, fixed by the published test vectors.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// The numbers of one stream, in order. A value type; copies continue independently. One thread each.
class Stream {
 public:
  explicit Stream(const StreamName& name);

  std::uint32_t bits32();
  std::uint64_t bits64();
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Uniform in 0 .. bound-1 without bias. Precondition: bound > 0.
  std::uint64_t below(std::uint64_t bound);

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> buffer_{};
  unsigned used_ = 4;
};

}  // namespace yoke::base
