// Reads TensorBoard event files back, written from the format's description and not from our writer.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::testing {

struct BoardEvent {
  double seconds = 0;
  std::int64_t step = 0;
  std::string version;
  bool restart = false;
  std::map<std::string, float> scalars;
};

/// The bits one by one, without a table: slow and plain.
inline std::uint32_t plain_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int k = 0; k < 8; ++k) crc = (crc & 1U) != 0 ? (crc >> 1U) ^ 0x82F63B78U : crc >> 1U;
  }
  return crc ^ 0xFFFFFFFFU;
}

template <typename T>
T raw(std::string_view bytes) {
  T value;
  if (bytes.size() < sizeof(T)) throw std::runtime_error("too short");
  std::memcpy(&value, bytes.data(), sizeof(T));  // tests run on little-endian machines
  return value;
}

/// The fields of a message in order: number, and the bytes or the number it has.
struct BoardField {
  std::uint64_t number = 0;
  std::uint64_t integer = 0;
  std::string_view bytes;
};

inline std::vector<BoardField> board_fields(std::string_view message) {
  const auto varint = [&message] {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (message.empty() || shift > 63) throw std::runtime_error("bad varint");
      const auto byte = static_cast<unsigned char>(message.front());
      message.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
  };
  const auto take = [&message](std::size_t size) {
    if (message.size() < size) throw std::runtime_error("field beyond the message");
    const auto bytes = message.substr(0, size);
    message.remove_prefix(size);
    return bytes;
  };
  std::vector<BoardField> fields;
  while (!message.empty()) {
    const std::uint64_t key = varint();
    BoardField field{.number = key >> 3U};
    switch (key & 7U) {
      case 0:
        field.integer = varint();
        break;
      case 1:
        field.bytes = take(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        field.bytes = take(4);
        break;
      default:
        throw std::runtime_error("unknown wire type");
    }
    fields.push_back(field);
  }
  return fields;
}

inline BoardEvent board_event(std::string_view data) {
  BoardEvent event;
  for (const auto& field : board_fields(data)) {
    if (field.number == 1) event.seconds = raw<double>(field.bytes);
    if (field.number == 2) event.step = static_cast<std::int64_t>(field.integer);
    if (field.number == 3) event.version = field.bytes;
    if (field.number == 7) event.restart = board_fields(field.bytes).at(0).integer == 1;
    if (field.number != 5) continue;
    for (const auto& value : board_fields(field.bytes)) {
      std::string tag;
      for (const auto& part : board_fields(value.bytes)) {
        if (part.number == 1) tag = part.bytes;
        if (part.number == 2) event.scalars[tag] = raw<float>(part.bytes);
      }
    }
  }
  return event;
}

/// Throws where the file is not what TensorBoard reads.
inline std::vector<BoardEvent> read_board(std::string_view file) {
  const auto check = [](std::string_view bytes, std::uint32_t stored) {
    const std::uint32_t crc = plain_crc32c(bytes);
    if (((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U != stored) throw std::runtime_error("wrong checksum");
  };
  std::vector<BoardEvent> events;
  while (!file.empty()) {
    const auto size = raw<std::uint64_t>(file);
    check(file.substr(0, 8), raw<std::uint32_t>(file.substr(8)));
    if (file.size() < 16 + size) throw std::runtime_error("torn record");
    check(file.substr(12, size), raw<std::uint32_t>(file.substr(12 + size)));
    events.push_back(board_event(file.substr(12, size)));
    file.remove_prefix(16 + size);
  }
  return events;
}

}  // namespace yoke::testing
