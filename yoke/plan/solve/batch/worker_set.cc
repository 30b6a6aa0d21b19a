#include "yoke/plan/solve/batch/worker_set.h"

#include <algorithm>
#include <bit>

namespace yoke::plan {
namespace {

constexpr int kBits = 64;

std::size_t word_of(int value) {
  return static_cast<std::size_t>(value) / kBits;
}

}  // namespace

WorkerSet::WorkerSet(int limit) : limit_(limit), words_(word_of(limit) + 1) {}

bool WorkerSet::contains(int value) const {
  return value >= 0 && value <= limit_ && ((words_[word_of(value)] >> (value % kBits)) & 1) != 0;
}

void WorkerSet::insert(int value) {
  if (value >= 0 && value <= limit_) words_[word_of(value)] |= std::uint64_t{1} << (value % kBits);
}

void WorkerSet::insert_multiples(int step, int count) {
  const int most = std::min(count, limit_ / step);
  for (int i = 1; i <= most; ++i) insert(i * step);
}

std::vector<std::pair<int, int>> WorkerSet::runs() const {
  std::vector<std::pair<int, int>> result;
  const int end = static_cast<int>(words_.size()) * kBits;
  // The first place from `from` on whose bit is `bit`, or `end`.
  const auto find = [&](int from, bool bit) {
    while (from < end) {
      const std::uint64_t word = bit ? words_[word_of(from)] : ~words_[word_of(from)];
      const std::uint64_t rest = word >> (from % kBits);
      if (rest != 0) return from + std::countr_zero(rest);
      from = (from / kBits + 1) * kBits;
    }
    return end;
  };
  for (int first = find(0, true); first < end;) {
    const int after = find(first, false);
    result.emplace_back(first, after - 1);
    first = find(after, true);
  }
  return result;
}

void WorkerSet::insert_shifted(const WorkerSet& other, int shift) {
  const std::size_t skip = word_of(shift);
  const int bits = shift % kBits;
  if (skip >= words_.size()) return;
  const std::size_t count = std::min(other.words_.size(), words_.size() - skip);
  if (bits == 0) {
    for (std::size_t i = count; i-- > 0;) words_[skip + i] |= other.words_[i];
  } else {
    // Downwards, so that a set may be merged into itself.
    if (skip + count < words_.size()) words_[skip + count] |= other.words_[count - 1] >> (kBits - bits);
    for (std::size_t i = count; i-- > 1;) {
      words_[skip + i] |= (other.words_[i] << bits) | (other.words_[i - 1] >> (kBits - bits));
    }
    words_[skip] |= other.words_[0] << bits;
  }
  clear_beyond_limit();
}

void WorkerSet::close_under(int step) {
  // After the pass with shift s the set holds x .. x + (2 s - step), so each pass doubles what is covered.
  for (std::int64_t shift = step; shift <= limit_; shift *= 2) insert_shifted(*this, static_cast<int>(shift));
}

void WorkerSet::clear_beyond_limit() {
  const int used = limit_ % kBits + 1;
  if (used < kBits) words_.back() &= (std::uint64_t{1} << used) - 1;
}

WorkerSet WorkerSet::sums(const WorkerSet& a, const WorkerSet& b, int limit) {
  auto runs_a = a.runs();
  auto runs_b = b.runs();
  const bool a_simpler = runs_a.size() <= runs_b.size();
  const auto& runs = a_simpler ? runs_a : runs_b;
  const WorkerSet& other = a_simpler ? b : a;

  WorkerSet result(static_cast<int>(std::min<std::int64_t>(limit, std::int64_t{a.limit_} + b.limit_)));
  for (const auto& [first, last] : runs) {
    if (first > result.limit_) break;
    // other + {0 .. last - first}, by doubling.
    WorkerSet spread(result.limit_);
    spread.insert_shifted(other, 0);
    const int length = std::min(last, result.limit_) - first + 1;
    for (int covered = 1; covered < length;) {
      const int step = std::min(covered, length - covered);
      spread.insert_shifted(spread, step);
      covered += step;
    }
    result.insert_shifted(spread, first);
  }
  return result;
}

WorkerSet WorkerSet::times(int factor, int limit) const {
  WorkerSet result(static_cast<int>(std::min<std::int64_t>(limit, std::int64_t{limit_} * factor)));
  for (const auto& [first, last] : runs()) {
    for (int value = first; value <= std::min(last, result.limit_ / factor); ++value) result.insert(value * factor);
  }
  return result;
}

}  // namespace yoke::plan
