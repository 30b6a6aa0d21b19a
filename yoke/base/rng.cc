#include "yoke/base/rng.h"

#include "yoke/base/error.h"

namespace yoke::base {
namespace {

std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

// The name has 224 bits, a Philox key 64: two chained blocks fold the name into the key of the stream.
Stream::Stream(const StreamName& name) : key_{low(name.seed), high(name.seed)} {
  const auto first = philox4x32({name.epoch, low(name.step), high(name.step), name.worker}, key_);
  const auto second = philox4x32({first[0], first[1], first[2], static_cast<std::uint32_t>(name.purpose)},
                                 {first[3] ^ key_[0], key_[1]});
  key_ = {second[0], second[1]};
}

std::uint32_t Stream::bits32() {
  if (used_ == buffer_.size()) {
    buffer_ = philox4x32({low(block_), high(block_), 0, 0}, key_);
    ++block_;
    used_ = 0;
  }
  return buffer_[used_++];
}

std::uint64_t Stream::bits64() {
  const std::uint64_t first = bits32();
  return first << 32 | bits32();
}

double Stream::uniform() {
  return static_cast<double>(bits64() >> 11) * 0x1p-53;
}

std::uint64_t Stream::below(std::uint64_t bound) {
  require(bound > 0, "Stream::below(0): expected a bound > 0");
  // Values under the threshold would make some results more likely than others: draw again.
  const std::uint64_t threshold = (0 - bound) % bound;
  while (true) {
    const std::uint64_t bits = bits64();
    if (bits >= threshold) return bits % bound;
  }
}

}  // namespace yoke::base
