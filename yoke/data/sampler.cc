#include "yoke/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "yoke/base/error.h"
#include "yoke/base/rng.h"

namespace yoke::data {
namespace {

/// A pseudo-random permutation of 0 .. size-1. A Feistel network permutes the next power of two; what falls outside is
/// permuted again until it falls inside, which takes less than two turns on average.
class Permutation {
 public:
  Permutation(std::int64_t size, std::uint64_t seed, std::uint32_t epoch) : size_(static_cast<std::uint64_t>(size)) {
    const int bits = std::bit_width(size_ - 1);
    right_bits_ = bits - bits / 2;
    left_mask_ = (std::uint64_t{1} << (bits / 2)) - 1;
    right_mask_ = (std::uint64_t{1} << right_bits_) - 1;
    base::Stream stream({.seed = seed, .epoch = epoch, .purpose = base::Purpose::kShuffle});
    for (std::uint64_t& key : keys_) key = stream.bits64();
  }

  std::int64_t at(std::int64_t position) const {
    auto value = static_cast<std::uint64_t>(position);
    do {
      value = turn(value);
    } while (value >= size_);
    return static_cast<std::int64_t>(value);
  }

 private:
  // Each line changes one half by a function of the other, so it can be undone whatever the function is. The halves
  // need not be equal.
  std::uint64_t turn(std::uint64_t value) const {
    std::uint64_t left = value >> right_bits_;
    std::uint64_t right = value & right_mask_;
    for (std::size_t round = 0; round < keys_.size(); round += 2) {
      left ^= mix(right + keys_[round]) & left_mask_;
      right ^= mix(left + keys_[round + 1]) & right_mask_;
    }
    return left << right_bits_ | right;
  }

  // Two odd multipliers with about half of their bits set; each shift brings the well-mixed high bits down.
  static std::uint64_t mix(std::uint64_t value) {
    value ^= value >> 32;
    value *= 0xA24BAED4963EE407;
    value ^= value >> 29;
    value *= 0x9FB21C651E98DF25;
    return value ^ value >> 32;
  }

  std::uint64_t size_;
  int right_bits_ = 0;
  std::uint64_t left_mask_ = 0;
  std::uint64_t right_mask_ = 0;
  std::array<std::uint64_t, 8> keys_{};
};

/// a * b, or `most` if that is less.
std::int64_t product_at_most(std::int64_t a, std::int64_t b, std::int64_t most) {
  return a > most / b ? most : std::min(a * b, most);
}

void check_shape(const StepShape& shape) {
  base::require(
      shape.workers >= 1 && shape.lbs >= 1,
      fmt::format("a step of {} workers of {} samples: expected at least 1 of each", shape.workers, shape.lbs));
}

}  // namespace

Sampler::Sampler(std::int64_t size, std::uint64_t seed, bool shuffle) : size_(size), seed_(seed), shuffle_(shuffle) {
  base::require(size > 0, fmt::format("a sampler of {} samples: expected at least 1", size));
}

std::int64_t Sampler::sample(std::uint32_t epoch, std::int64_t position) const {
  base::require(position >= 0 && position < size_, fmt::format("position {} of {}", position, size_));
  return shuffle_ ? Permutation(size_, seed_, epoch).at(position) : position;
}

std::vector<std::int64_t> Sampler::samples(const Cursor& cursor, const StepShape& shape, std::int64_t worker) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(worker_samples(cursor, shape, worker)));
  if (indices.empty()) return indices;
  std::int64_t position = cursor.consumed + worker * shape.lbs;
  if (!shuffle_) {
    for (std::int64_t& index : indices) index = position++;
    return indices;
  }
  const Permutation permutation(size_, seed_, cursor.epoch);
  for (std::int64_t& index : indices) index = permutation.at(position++);
  return indices;
}

std::int64_t Sampler::step_samples(const Cursor& cursor, const StepShape& shape) const {
  check_shape(shape);
  base::require(cursor.consumed >= 0 && cursor.consumed < size_,
                fmt::format("a cursor at {} of {} samples", cursor.consumed, size_));
  return product_at_most(shape.workers, shape.lbs, size_ - cursor.consumed);
}

std::int64_t Sampler::worker_samples(const Cursor& cursor, const StepShape& shape, std::int64_t worker) const {
  const std::int64_t step = step_samples(cursor, shape);
  base::require(worker >= 0 && worker < shape.workers, fmt::format("worker {} of {}", worker, shape.workers));
  return std::min(shape.lbs, step - product_at_most(worker, shape.lbs, step));
}

Cursor Sampler::advance(const Cursor& cursor, const StepShape& shape) const {
  Cursor next{
      .epoch = cursor.epoch, .consumed = cursor.consumed + step_samples(cursor, shape), .step = cursor.step + 1};
  if (next.consumed == size_) {
    next.consumed = 0;
    ++next.epoch;
  }
  return next;
}

std::int64_t Sampler::steps_per_epoch(const StepShape& shape) const {
  check_shape(shape);
  const std::int64_t step = product_at_most(shape.workers, shape.lbs, size_);
  return (size_ - 1) / step + 1;
}

}  // namespace yoke::data
