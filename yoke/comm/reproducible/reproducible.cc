#include "yoke/comm/reproducible/reproducible.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "yoke/comm/group.h"

namespace yoke::comm {

namespace {

/// Addends that std::int32_t holds.
constexpr std::uint32_t kNarrowAddends = std::numeric_limits<std::int32_t>::max() / detail::kLargestLimb;

base::Status check_addends(std::int64_t addends) {
  if (addends <= ReproducibleSum::kMostAddends) return {};
  return base::infeasible_error(
      fmt::format("a reproducible sum has {} addends, at most {} are possible: take fewer and larger virtual workers",
                  addends, ReproducibleSum::kMostAddends));
}

}  // namespace

ReproducibleSum::ReproducibleSum(std::size_t count)
    : count_(count), addends_((count + kBlock - 1) / kBlock), limbs_(Narrow(count)) {}

std::int64_t ReproducibleSum::addends() const {
  return addends_.empty() ? 0 : *std::max_element(addends_.begin(), addends_.end());
}

void ReproducibleSum::reset() {
  std::fill(addends_.begin(), addends_.end(), 0U);
  if (auto* narrow = std::get_if<Narrow>(&limbs_)) {
    std::fill(narrow->scale.begin(), narrow->scale.end(), std::uint8_t{0});
    std::fill(narrow->upper.begin(), narrow->upper.end(), 0);
    std::fill(narrow->lower.begin(), narrow->lower.end(), 0);
  } else {
    limbs_.emplace<Narrow>(count_);
  }
}

void ReproducibleSum::add(std::size_t begin, std::span<const float> values) {
  base::require(begin <= count_ && values.size() <= count_ - begin,
                fmt::format("add of {} values at {} to a sum of {}", values.size(), begin, count_));
  if (values.empty()) return;
  std::uint32_t most = 0;
  for (std::size_t block = begin / kBlock; block <= (begin + values.size() - 1) / kBlock; ++block) {
    most = std::max(most, ++addends_[block]);
  }
  if (most > kNarrowAddends) widen();
  std::visit([&](auto& limbs) { detail::add(limbs, begin, values); }, limbs_);
}

void ReproducibleSum::merge(const ReproducibleSum& other) {
  base::require(&other != this && other.count_ == count_,
                fmt::format("merge of a sum of {} elements into one of {}", other.count_, count_));
  for (std::size_t block = 0; block < addends_.size(); ++block) addends_[block] += other.addends_[block];
  if (addends() > kNarrowAddends) widen();
  if (auto* narrow = std::get_if<Narrow>(&limbs_)) {
    // Not more addends than fit here: then `other` cannot have been widened.
    detail::merge(*narrow, std::get<Narrow>(other.limbs_));
  } else {
    std::visit([&](const auto& from) { detail::merge(std::get<Wide>(limbs_), from); }, other.limbs_);
  }
}

void ReproducibleSum::widen() {
  const auto* narrow = std::get_if<Narrow>(&limbs_);
  if (narrow == nullptr) return;
  Wide wide(count_);
  detail::merge(wide, *narrow);
  limbs_ = std::move(wide);
}

base::Status ReproducibleSum::finish(std::span<float> out) const {
  base::require(out.size() == count_, fmt::format("{} elements for a sum of {}", out.size(), count_));
  YOKE_CHECK(check_addends(addends()));
  std::array<std::int64_t, 1024> packed;  // a piece at a time: no memory for all of them
  for (std::size_t begin = 0; begin < count_; begin += packed.size()) {
    const auto piece = std::span(packed).first(std::min(packed.size(), count_ - begin));
    const auto own = scales().subspan(begin, piece.size());
    std::visit([&](const auto& limbs) { detail::pack(limbs, begin, own, piece); }, limbs_);
    detail::unpack(own, piece, out.subspan(begin, piece.size()));
  }
  return {};
}

std::span<const std::uint8_t> ReproducibleSum::scales() const {
  return std::visit([](const auto& limbs) { return std::span<const std::uint8_t>(limbs.scale); }, limbs_);
}

void ReproducibleSum::pack(std::span<const std::uint8_t> scales, std::span<std::int64_t> packed) const {
  base::require(scales.size() == count_ && packed.size() == count_,
                fmt::format("{} scales and {} packed sums for a sum of {}", scales.size(), packed.size(), count_));
  std::visit([&](const auto& limbs) { detail::pack(limbs, 0, scales, packed); }, limbs_);
}

base::Status unpack(std::span<const std::uint8_t> scales, std::span<const std::int64_t> packed, std::int64_t addends,
                    std::span<float> out) {
  base::require(scales.size() == out.size() && packed.size() == out.size(),
                fmt::format("{} scales and {} packed sums for {} elements", scales.size(), packed.size(), out.size()));
  YOKE_CHECK(check_addends(addends));
  detail::unpack(scales, packed, out);
  return {};
}

base::Status reproducible_all_reduce(const ReproducibleSum& sum, std::span<float> out, Group& group,
                                     const base::Deadline& deadline) {
  base::require(out.size() == sum.count(), fmt::format("{} elements for a sum of {}", out.size(), sum.count()));
  const auto own = sum.scales();
  std::vector<std::uint8_t> scales(own.begin(), own.end());
  YOKE_CHECK(group.run(all_reduce(std::span(scales), Reduction::kMax), deadline));

  // The number of addends travels as one more element, so that all ranks agree whether the sum holds.
  std::vector<std::int64_t> packed(sum.count() + 1);
  const auto sums = std::span(packed).first(sum.count());
  sum.pack(scales, sums);
  packed.back() = sum.addends();
  YOKE_CHECK(group.run(all_reduce(std::span(packed)), deadline));
  return unpack(scales, sums, packed.back(), out);
}

}  // namespace yoke::comm
