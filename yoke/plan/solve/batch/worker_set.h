// A set of whole numbers as bits, and the sums one can make of two such sets: the arithmetic of "can these devices
// together run exactly M workers?". Value type.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace yoke::plan {

class WorkerSet {
 public:
  /// Empty; can hold 0 .. `limit`.
  explicit WorkerSet(int limit);

  int limit() const { return limit_; }
  bool contains(int value) const;
  void insert(int value);
  /// step, 2 step, .. count * step, up to the limit.
  void insert_multiples(int step, int count);
  /// Adds every value of `other` (which may be this set) plus `shift` >= 0, up to the limit.
  void insert_shifted(const WorkerSet& other, int shift);
  /// Adds x + step, x + 2 step, .. for every x in the set, up to the limit.
  void close_under(int step);

  /// All a + b up to `limit`. Costs (runs of consecutive numbers in the simpler set) x (words of the other).
  static WorkerSet sums(const WorkerSet& a, const WorkerSet& b, int limit);
  /// Every value times `factor`, up to `limit`.
  WorkerSet times(int factor, int limit) const;

 private:
  /// First and last number of every run of consecutive numbers, ascending.
  std::vector<std::pair<int, int>> runs() const;
  void clear_beyond_limit();

  int limit_;
  std::vector<std::uint64_t> words_;
};

}  // namespace yoke::plan
