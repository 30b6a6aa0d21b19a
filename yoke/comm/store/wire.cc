#include "yoke/comm/store/wire.h"

#include <bit>
#include <concepts>
#include <cstring>

namespace yoke::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

template <std::integral T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out.append(text);
}

/// Reads from the front of a frame; once something is missing, everything is.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}

  template <std::integral T>
  T number() {
    T value{};
    const auto field = take(sizeof(T));
    if (whole_) std::memcpy(&value, field.data(), sizeof(T));
    return value;
  }
  std::string text() { return std::string(take(number<std::uint32_t>())); }

  bool whole() const { return whole_; }
  bool done() const { return whole_ && bytes_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    if (!whole_ || bytes_.size() < size) {
      whole_ = false;
      return {};
    }
    const auto field = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return field;
  }

  std::string_view bytes_;
  bool whole_ = true;
};

std::string with_length(const std::string& frame) {
  std::string out;
  put(out, static_cast<std::uint32_t>(frame.size()));
  return out + frame;
}

}  // namespace

std::string encode(const StoreRequest& request) {
  std::string frame;
  put(frame, static_cast<std::uint8_t>(request.command));
  put(frame, request.number);
  put(frame, request.wait_ms);
  put(frame, request.key);
  put(frame, request.value);
  return with_length(frame);
}

std::string encode(const StoreReply& reply) {
  std::string frame;
  put(frame, static_cast<std::uint8_t>(reply.found));
  put(frame, reply.number);
  put(frame, static_cast<std::uint32_t>(reply.values.size()));
  for (const auto& value : reply.values) put(frame, value);
  return with_length(frame);
}

std::optional<StoreRequest> decode_request(std::string_view frame) {
  Input input(frame);
  StoreRequest request;
  const auto command = input.number<std::uint8_t>();
  request.command = static_cast<StoreCommand>(command);
  request.number = input.number<std::int64_t>();
  request.wait_ms = input.number<std::int64_t>();
  request.key = input.text();
  request.value = input.text();
  if (!input.done() || command > static_cast<std::uint8_t>(kLastStoreCommand)) return std::nullopt;
  return request;
}

std::optional<StoreReply> decode_reply(std::string_view frame) {
  Input input(frame);
  StoreReply reply;
  reply.found = input.number<std::uint8_t>() != 0;
  reply.number = input.number<std::int64_t>();
  const auto count = input.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && input.whole(); ++i) reply.values.push_back(input.text());
  if (!input.done()) return std::nullopt;
  return reply;
}

std::optional<std::string> take_frame(std::string& buffer, bool& garbage) {
  std::uint32_t length = 0;
  if (buffer.size() < sizeof(length)) return std::nullopt;
  std::memcpy(&length, buffer.data(), sizeof(length));
  if (length > kLargestFrame) {
    garbage = true;
    return std::nullopt;
  }
  if (buffer.size() - sizeof(length) < length) return std::nullopt;
  std::string frame = buffer.substr(sizeof(length), length);
  buffer.erase(0, sizeof(length) + length);
  return frame;
}

}  // namespace yoke::comm
