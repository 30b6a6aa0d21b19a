// SHA-256 (FIPS 180-4), for checksums that anybody's tools can recompute. With the processor's SHA instructions where
// it has them: then it is faster than a disk, 1 to 2 GB/s.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace yoke::base {

/// Of bytes that come in pieces; how they are cut does not matter. A value: one thread at a time.
class Sha256 {
 public:
  enum class Use { kFastest, kPortable };  // the same results; the second is for machines without, and for tests

  explicit Sha256(Use use = Use::kFastest);

  void update(std::string_view bytes);
  /// The sum as 64 hexadecimal digits. Call once, at the end.
  std::string finish();

 private:
  void compress(const unsigned char* blocks, std::size_t count);

  bool instructions_;
  std::array<std::uint32_t, 8> state_;
  std::array<unsigned char, 64> pending_{};
  std::size_t pending_size_ = 0;
  std::uint64_t total_ = 0;
};

std::string sha256(std::string_view bytes);

}  // namespace yoke::base
