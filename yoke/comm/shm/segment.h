// One piece of POSIX shared memory that the ranks of a group on one host map. Its name lives only while they meet: once
// all have it, it is unlinked, so that nothing stays behind however they end.
#pragma once

#include <cstddef>
#include <span>

#include "yoke/comm/join.h"

namespace yoke::comm::shm {

class Segment {
 public:
  /// Every rank calls it with the same size; the memory is zeroed. Rank 0 creates it, removes what crashed runs have
  /// left, and unlinks it.
  static base::Result<Segment> meet(const BackendOptions& options, std::size_t bytes, const base::Deadline& deadline);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) = delete;
  ~Segment();

  std::byte* data() const { return memory_.data(); }

 private:
  explicit Segment(std::span<std::byte> memory) : memory_(memory) {}
  std::span<std::byte> memory_;
};

}  // namespace yoke::comm::shm
