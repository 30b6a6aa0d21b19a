#include "yoke/engine/checkpoint/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "yoke/base/document.h"
#include "yoke/base/json.h"
#include "yoke/base/text.h"

namespace yoke::engine {
namespace {

using base::input_error;
using base::Json;
using base::View;

const std::string kMetadata = "__metadata__";
/// More are no tensor that libraries can work on.
constexpr std::size_t kMaxDimensions = 64;

const std::vector<std::string>& type_names() {
  static const std::vector<std::string> names{"F32", "F64", "F16", "BF16", "I64", "I32", "U8", "BOOL"};
  return names;
}

/// The bytes of a tensor; nullopt where the number is too large. Zeros count as one until the end, as in the strides
/// that a library computes of the shape, so that those cannot overflow either.
std::optional<std::int64_t> bytes_of(TensorType type, const std::vector<std::int64_t>& shape) {
  std::int64_t bytes = bytes_of(type);
  bool empty = false;
  for (const std::int64_t size : shape) {
    empty = empty || size == 0;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes)) return std::nullopt;
  }
  return empty ? 0 : bytes;
}

TensorEntry read_entry(const std::string& name, View view) {
  TensorEntry entry{.name = name};
  entry.type = static_cast<TensorType>(view.field("dtype").one_of(type_names()));
  auto sizes = view.field("shape").items();
  if (sizes.size() > kMaxDimensions) {
    view.fail(fmt::format("found {} dimensions, expected at most {}", sizes.size(), kMaxDimensions));
    return entry;
  }
  for (auto& size : sizes) entry.shape.push_back(size.integer(base::kNotNegative));
  View place = view.field("data_offsets");
  auto offsets = place.items();
  if (offsets.size() == 2) {
    entry.begin = offsets[0].integer(base::kNotNegative);
    entry.end = offsets[1].integer(base::kNotNegative);
  } else {
    place.fail(fmt::format("found {} numbers, expected 2: where the tensor begins and ends", offsets.size()));
  }
  view.done();
  const auto expected = bytes_of(entry.type, entry.shape);
  if (!expected) {
    view.fail(fmt::format("the shape [{}] is too large to count its bytes", fmt::join(entry.shape, ", ")));
  } else if (entry.end < entry.begin || entry.end - entry.begin != *expected) {
    place.fail(fmt::format("found bytes {} to {}, expected {} bytes for {} [{}]", entry.begin, entry.end, *expected,
                           name_of(entry.type), fmt::join(entry.shape, ", ")));
  }
  return entry;
}

/// The first place where bytes belong to no tensor, or to two.
base::Status check_places(const SafetensorsHeader& header, std::int64_t data_bytes, const std::string& file) {
  std::vector<const TensorEntry*> sorted;
  for (const auto& entry : header.tensors) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::int64_t end = 0;
  for (const TensorEntry* entry : sorted) {
    if (entry->begin != end) {
      return input_error(
          fmt::format("begins at byte {}, expected {}: tensors may not overlap or leave gaps", entry->begin, end),
          {.file = file, .field = entry->name});
    }
    end = entry->end;
  }
  if (end == data_bytes) return {};
  return input_error(fmt::format("found {} bytes of tensors, but its header describes {}; {}", data_bytes, end,
                                 data_bytes < end ? "the file was cut short" : "it is damaged, or no safetensors file"),
                     {.file = file});
}

}  // namespace

const std::string& name_of(TensorType type) {
  return type_names()[static_cast<std::size_t>(type)];
}

std::int64_t bytes_of(TensorType type) {
  switch (type) {
    case TensorType::kF64:
    case TensorType::kI64:
      return 8;
    case TensorType::kF32:
    case TensorType::kI32:
      return 4;
    case TensorType::kF16:
    case TensorType::kBF16:
      return 2;
    case TensorType::kU8:
    case TensorType::kBool:
      return 1;
  }
  return 1;
}

std::vector<std::size_t> place_tensors(SafetensorsHeader& header) {
  auto& tensors = header.tensors;
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bytes_of(tensors[a].type) > bytes_of(tensors[b].type); });
  std::int64_t end = 0;
  for (const std::size_t i : order) {
    const auto bytes = bytes_of(tensors[i].type, tensors[i].shape);
    base::require(bytes.has_value(), "a tensor larger than memory");
    tensors[i].begin = end;
    end += *bytes;
    tensors[i].end = end;
  }
  return order;
}

base::Result<std::string> encode_header(const SafetensorsHeader& header, const std::string& file) {
  const auto refuse = [&](const std::string& name, std::string_view why) {
    return input_error(fmt::format("the tensor {} cannot be saved: {}", base::quote(name), why), {.file = file});
  };
  Json json = Json::object();
  if (!header.metadata.empty()) {
    Json& metadata = json[kMetadata];
    for (const auto& [key, value] : header.metadata) metadata[key] = value;
  }
  std::unordered_set<std::string_view> names;
  for (const auto& entry : header.tensors) {
    if (entry.name == kMetadata) return refuse(entry.name, "the format uses that name for other things");
    if (base::valid_utf8_prefix(entry.name) != entry.name.size()) return refuse(entry.name, "its name is not UTF-8");
    if (!names.insert(entry.name).second) return refuse(entry.name, "there are two of that name");
    json[entry.name] = Json{{"dtype", name_of(entry.type)},
                            {"shape", entry.shape.empty() ? Json::array() : Json(entry.shape)},
                            {"data_offsets", Json(std::vector<std::int64_t>{entry.begin, entry.end})}};
  }
  std::string text = json.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  if (std::ssize(text) > kMaxHeaderBytes) {
    return input_error(fmt::format("{} tensors are too many for one file", header.tensors.size()), {.file = file});
  }
  std::string length;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return length + text;
}

base::Result<std::int64_t> read_header_length(std::string_view first_bytes, std::int64_t file_bytes,
                                              const std::string& file) {
  if (std::ssize(first_bytes) < kLengthBytes || file_bytes < kLengthBytes) {
    return input_error(fmt::format("found {} bytes, expected a safetensors file", file_bytes), {.file = file});
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::uint64_t{static_cast<unsigned char>(first_bytes[i])} << (8 * i);
  }
  const std::int64_t most = std::min(kMaxHeaderBytes, file_bytes - kLengthBytes);
  if (length > static_cast<std::uint64_t>(most)) {
    return input_error(fmt::format("found a header of {} bytes, expected at most {}; it is damaged, or no safetensors "
                                   "file",
                                   length, most),
                       {.file = file});
  }
  return static_cast<std::int64_t>(length);
}

base::Result<SafetensorsHeader> parse_header(std::string_view text, std::int64_t data_bytes, const std::string& file) {
  YOKE_TRY(const base::Document document, base::parse_json(text, file));
  base::Reader reader(document);
  SafetensorsHeader header;
  for (auto& [name, view] : reader.root().entries()) {
    if (name == kMetadata) {
      for (auto& [key, value] : view.entries()) header.metadata.emplace_back(key, value.text());
    } else {
      header.tensors.push_back(read_entry(name, view));
    }
  }
  if (!reader.ok()) return reader.error();
  YOKE_CHECK(check_places(header, data_bytes, file));
  return header;
}

}  // namespace yoke::engine
