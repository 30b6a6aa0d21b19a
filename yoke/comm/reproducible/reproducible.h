// A sum of f32 values whose bits do not depend on the order of the additions, on how they are grouped, or on how many
// ranks share them. With it a step of M virtual workers gives the same weights wherever the workers run.
//
//   ReproducibleSum sum(bucket.elements);
//   sum.add(gradient_of_worker_0);   sum.add(gradient_of_worker_7);               // in any order
//   YOKE_CHECK(reproducible_all_reduce(sum, out, *group, deadline));              // with the other ranks' workers
//
// Every addend is rounded to a grid that follows from the largest exponent among the addends of its element, and is
// then added exactly; the sum is rounded once. limbs.h says how, docs/communication.md why so and what it costs.
//
//   The error       of n addends before the one rounding is at most (n - 1) 2^-24 max|x|; a plain f32 sum's is about
//                   (n - 1) 2^-24 sum|x|. The grid is 2^-23 to 2^-46 of the largest addend's leading bit.
//   Overflow        happens in the result only, never on the way.
//   Special values  NaN, or infinities of both signs: a NaN; infinities of one sign: that one.
//   Zeros           add nothing. A sum of nothing, of zeros of any sign, or one that cancels is +0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/comm/reproducible/limbs.h"

namespace yoke::comm {

class Group;

/// The sums of `count` elements on this rank. 9 bytes for each, 17 once an element has more than 255 addends. One
/// thread at a time; threads that add at once take one each and merge(), or a lock: the bits are the same.
class ReproducibleSum {
 public:
  /// Of one element over all ranks.
  static constexpr std::int64_t kMostAddends = 65'536;

  explicit ReproducibleSum(std::size_t count);

  std::size_t count() const { return count_; }
  /// At least the number of addends of any element. Exact if every add() began and ended at a multiple of kBlock
  /// elements or at the end, else elements of one block are counted together.
  std::int64_t addends() const;

  /// As new.
  void reset();
  /// Adds values[i] to element begin + i. Precondition: these elements exist.
  void add(std::size_t begin, std::span<const float> values);
  void add(std::span<const float> values) { add(0, values); }
  /// Adds all that was added to `other`. Precondition: another sum of as many elements.
  void merge(const ReproducibleSum& other);

  /// The rounded sums of this rank alone, into count() elements. Fails beyond kMostAddends.
  base::Status finish(std::span<float> out) const;

  /// What reproducible_all_reduce() exchanges: the scale of each element, and its sum as an integer at given scales,
  /// none smaller than its own. Sums at the same scales are added as integers.
  std::span<const std::uint8_t> scales() const;
  void pack(std::span<const std::uint8_t> scales, std::span<std::int64_t> packed) const;

  static constexpr std::size_t kBlock = 16;  // elements whose addends are counted together

 private:
  using Narrow = detail::Limbs<std::int32_t>;
  using Wide = detail::Limbs<std::int64_t>;

  void widen();

  std::size_t count_;
  std::vector<std::uint32_t> addends_;  // of each block
  std::variant<Narrow, Wide> limbs_;
};

/// The rounded sums from integers that were packed at `scales` and added up. `addends`: of any one element, at most.
/// Fails beyond kMostAddends, when the integers may have wrapped around.
base::Status unpack(std::span<const std::uint8_t> scales, std::span<const std::int64_t> packed, std::int64_t addends,
                    std::span<float> out);

/// The rounded sums over all ranks, the same bits on each, into sum.count() elements of `out`. A collective of two
/// all-reduces, 9 bytes per element where a plain one has 4, and as much memory meanwhile; `sum` stays as it is. Called
/// by the thread that owns the group. Fails, on all ranks, beyond kMostAddends.
base::Status reproducible_all_reduce(const ReproducibleSum& sum, std::span<float> out, Group& group,
                                     const base::Deadline& deadline);

}  // namespace yoke::comm
