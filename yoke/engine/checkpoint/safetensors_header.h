// The head of a safetensors file: eight bytes with the length of a JSON text (little-endian), the text, and then
// nothing but the tensors' bytes. The text says for each tensor its type, shape and place. Free of torch: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yoke/base/result.h"

namespace yoke::engine {

enum class TensorType { kF32, kF64, kF16, kBF16, kI64, kI32, kU8, kBool };

/// `F32` and so on: the names in the file.
const std::string& name_of(TensorType type);
std::int64_t bytes_of(TensorType type);

struct TensorEntry {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::int64_t begin = 0;           // counted from the first byte behind the header
  std::int64_t end = 0;
  bool operator==(const TensorEntry&) const = default;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // as written, which need not be the order of the bytes
  std::vector<std::pair<std::string, std::string>> metadata;
  bool operator==(const SafetensorsHeader&) const = default;
};

/// A larger header than this is no file of ours.
inline constexpr std::int64_t kMaxHeaderBytes = 64 * 1024 * 1024;
/// The length that stands in front.
inline constexpr std::int64_t kLengthBytes = 8;

/// Gives every tensor its place: one behind the other, larger elements first, so that each is aligned. Returns the
/// indices in the order of their bytes.
std::vector<std::size_t> place_tensors(SafetensorsHeader& header);

/// The length and the text, padded with blanks so that the tensors begin at a multiple of eight. Input error for names
/// that the format cannot hold: twice the same, not UTF-8, or `__metadata__`. `file` is for messages here and below.
base::Result<std::string> encode_header(const SafetensorsHeader& header, const std::string& file);

/// How long the text is, from the first eight bytes of a file of this size.
base::Result<std::int64_t> read_header_length(std::string_view first_bytes, std::int64_t file_bytes,
                                              const std::string& file);
/// The text of a header with `data_bytes` bytes of tensors behind it. Every tensor's place must fit its type and shape,
/// and together they must fill those bytes without gap or overlap.
base::Result<SafetensorsHeader> parse_header(std::string_view text, std::int64_t data_bytes, const std::string& file);

}  // namespace yoke::engine
