// Reading IDX files, the format of MNIST and its kin: a header of dimensions and then bytes, packed with gzip or not.
// Torch-free, pure functions: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "yoke/base/result.h"

namespace yoke::data {

/// An array of unsigned bytes; the last dimension varies fastest.
struct Idx {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values;
};

/// More than this is no data set of this format: refused before it fills the memory.
inline constexpr std::int64_t kMaxIdxBytes = std::int64_t{1} << 29;

/// `bytes` is the content of `file`, which is named in errors. Input error for content that is damaged, too short, too
/// long, or holds something else than unsigned bytes.
base::Result<Idx> parse_idx(const std::string& bytes, const std::string& file);

}  // namespace yoke::data
