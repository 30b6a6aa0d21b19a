#include "yoke/engine/flow_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace yoke::engine {
namespace {

constexpr std::uint32_t kMagic = 0x59464c57;
constexpr std::int64_t kMostDimensions = 16;
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

class Writer {
 public:
  explicit Writer(std::span<std::byte> into) : into_(into) {}
  void put(const void* data, std::size_t bytes) {
    if (bytes > into_.size() - at_) {
      full_ = true;
      return;
    }
    std::memcpy(into_.data() + at_, data, bytes);
    at_ += bytes;
  }
  template <typename T>
  void number(T value) {
    const auto wide = static_cast<std::int64_t>(value);
    put(&wide, sizeof(wide));
  }
  /// Whether something had no room.
  bool full() const { return full_; }

 private:
  std::span<std::byte> into_;
  std::size_t at_ = 0;
  bool full_ = false;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : from_(from) {}
  std::int64_t number() {
    std::int64_t value = 0;
    if (sizeof(value) > from_.size() - at_) {
      broken_ = true;
      return 0;
    }
    std::memcpy(&value, from_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }
  std::int64_t number(std::int64_t least, std::int64_t most) {
    const std::int64_t value = number();
    if (value < least || value > most) broken_ = true;
    return broken_ ? least : value;
  }
  std::string text(std::size_t bytes) {
    if (bytes > from_.size() - at_) broken_ = true;
    if (broken_) return {};
    std::string text(reinterpret_cast<const char*>(from_.data() + at_), bytes);
    at_ += bytes;
    return text;
  }
  bool broken() const { return broken_; }

 private:
  std::span<const std::byte> from_;
  std::size_t at_ = 0;
  bool broken_ = false;
};

}  // namespace

base::Status encode(const FlowHeader& header, std::span<std::byte> into) {
  Writer writer(into);
  writer.number(kMagic);
  writer.number(header.worker);
  writer.number(header.payload);
  writer.number(header.entries.size());
  for (const auto& entry : header.entries) {
    writer.number(entry.name.size());
    writer.put(entry.name.data(), entry.name.size());
    writer.number(entry.type);
    writer.number(entry.defined);
    writer.number(entry.wants_gradient);
    writer.number(entry.shape.size());
    for (const auto size : entry.shape) writer.number(size);
  }
  if (!writer.full()) return {};
  return base::input_error(fmt::format(
      "{} tensors cross from one pipeline stage to the next; their names and shapes need more than {} bytes. Cut the "
      "model where fewer tensors cross",
      header.entries.size(), into.size()));
}

base::Result<FlowHeader> decode_flow_header(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto broken = [] { return base::peer_error("a message between stages does not begin with a header"); };
  if (reader.number() != kMagic) return broken();
  FlowHeader header;
  header.worker = reader.number();
  header.payload = static_cast<plan::Payload>(reader.number(0, 1));
  const std::int64_t count = reader.number(0, static_cast<std::int64_t>(bytes.size()));
  for (std::int64_t i = 0; i < count && !reader.broken(); ++i) {
    FlowHeader::Entry entry;
    entry.name = reader.text(static_cast<std::size_t>(reader.number(0, static_cast<std::int64_t>(bytes.size()))));
    entry.type = static_cast<std::int8_t>(reader.number(0, std::numeric_limits<std::int8_t>::max()));
    entry.defined = reader.number(0, 1) == 1;
    entry.wants_gradient = reader.number(0, 1) == 1;
    const std::int64_t dimensions = reader.number(0, kMostDimensions);
    std::int64_t elements = 1;
    for (std::int64_t d = 0; d < dimensions && !reader.broken(); ++d) {
      entry.shape.push_back(reader.number(0, kMostElements));
      if (entry.shape.back() > 0 && elements > kMostElements / entry.shape.back()) return broken();
      elements *= std::max<std::int64_t>(1, entry.shape.back());
    }
    header.entries.push_back(std::move(entry));
  }
  if (reader.broken()) return broken();
  return header;
}

}  // namespace yoke::engine
