// A dense table of bits, one row per item: sets of layers or of states, with word-parallel set operations.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace yoke::plan {

using BitWord = std::uint64_t;
using ConstBits = std::span<const BitWord>;
using Bits = std::span<BitWord>;

inline bool test(ConstBits bits, int bit) {
  return (bits[static_cast<std::size_t>(bit) / 64] >> (static_cast<unsigned>(bit) % 64) & 1U) != 0;
}

inline void set(Bits bits, int bit) {
  bits[static_cast<std::size_t>(bit) / 64] |= BitWord{1} << (static_cast<unsigned>(bit) % 64);
}

/// target |= source
inline void unite(Bits target, ConstBits source) {
  for (std::size_t w = 0; w < target.size(); ++w) target[w] |= source[w];
}

inline bool intersects(ConstBits a, ConstBits b) {
  for (std::size_t w = 0; w < a.size(); ++w) {
    if ((a[w] & b[w]) != 0) return true;
  }
  return false;
}

/// Calls `visit(bit)` for every set bit, ascending.
template <typename Visit>
void for_each_bit(ConstBits bits, Visit visit) {
  for (std::size_t w = 0; w < bits.size(); ++w) {
    for (BitWord rest = bits[w]; rest != 0; rest &= rest - 1) visit(static_cast<int>(w * 64) + std::countr_zero(rest));
  }
}

/// Rows of equal width, zero at first; rows may be appended.
class BitRows {
 public:
  BitRows() = default;
  BitRows(int rows, int bits)
      : words_((static_cast<std::size_t>(bits) + 63) / 64), data_(static_cast<std::size_t>(rows) * words_) {}

  int rows() const { return words_ == 0 ? 0 : static_cast<int>(data_.size() / words_); }
  Bits row(int index) { return {data_.data() + static_cast<std::size_t>(index) * words_, words_}; }
  ConstBits row(int index) const { return {data_.data() + static_cast<std::size_t>(index) * words_, words_}; }
  void append(ConstBits bits) { data_.insert(data_.end(), bits.begin(), bits.end()); }
  void remove_last() { data_.resize(data_.size() - words_); }

 private:
  std::size_t words_ = 0;
  std::vector<BitWord> data_;
};

}  // namespace yoke::plan
