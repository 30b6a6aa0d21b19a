#include "yoke/base/tensorboard.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <utility>

namespace yoke::base {
namespace {

std::array<std::uint32_t, 256> make_crc_table() {
  constexpr std::uint32_t kReversedPolynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1U) ^ ((rest & 1U) != 0 ? kReversedPolynomial : 0U);
    table[byte] = rest;
  }
  return table;
}

std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

template <typename Unsigned>
void put_little_endian(std::string& out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(value); ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xFFU));
}

// Protocol buffers: a field is its number and the kind of what follows, then that.
enum class Wire : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out.push_back(static_cast<char>((value & 0x7FU) | 0x80U));
  out.push_back(static_cast<char>(value));
}
void put_key(std::string& out, std::uint64_t field, Wire wire) {
  put_varint(out, field << 3U | static_cast<std::uint64_t>(wire));
}
void put_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  put_key(out, field, Wire::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}
void put_number(std::string& out, std::uint64_t field, std::int64_t number) {
  put_key(out, field, Wire::kVarint);
  put_varint(out, static_cast<std::uint64_t>(number));
}

// tensorflow.Event, tensorflow.Summary and tensorflow.SessionLog: the numbers of the fields that are used.
constexpr std::uint64_t kEventWallTime = 1;
constexpr std::uint64_t kEventStep = 2;
constexpr std::uint64_t kEventFileVersion = 3;
constexpr std::uint64_t kEventSummary = 5;
constexpr std::uint64_t kEventSessionLog = 7;
constexpr std::uint64_t kSummaryValue = 1;
constexpr std::uint64_t kValueTag = 1;
constexpr std::uint64_t kValueSimple = 2;
constexpr std::uint64_t kSessionLogStatus = 1;
constexpr std::int64_t kSessionStart = 1;

std::string event_record(std::int64_t step, double seconds, std::uint64_t field, std::string_view content) {
  std::string event;
  put_key(event, kEventWallTime, Wire::kFixed64);
  put_little_endian(event, std::bit_cast<std::uint64_t>(seconds));
  if (step != 0) put_number(event, kEventStep, step);
  put_bytes(event, field, content);
  return tf_record(event);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const std::array<std::uint32_t, 256> kTable = make_crc_table();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = (crc >> 8U) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU];
  return ~crc;
}

std::string tf_record(std::string_view data) {
  std::string record;
  put_little_endian(record, static_cast<std::uint64_t>(data.size()));
  put_little_endian(record, masked_crc(record));
  record += data;
  put_little_endian(record, masked_crc(data));
  return record;
}

Result<TensorBoardWriter> TensorBoardWriter::create(const std::string& folder, const std::string& suffix,
                                                    double seconds) {
  const std::string path =
      join_path(folder, fmt::format("events.out.tfevents.{}.{}", static_cast<std::int64_t>(seconds), suffix));
  YOKE_TRY(AppendFile file, AppendFile::open(path));
  YOKE_CHECK(file.append(event_record(0, seconds, kEventFileVersion, "brain.Event:2")));
  return TensorBoardWriter(std::move(file));
}

Status TensorBoardWriter::restart(std::int64_t step, double seconds) {
  std::string log;
  put_number(log, kSessionLogStatus, kSessionStart);
  return file_.append(event_record(step, seconds, kEventSessionLog, log));
}

Status TensorBoardWriter::add(std::int64_t step, const std::vector<Scalar>& scalars, double seconds) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, kValueTag, scalar.tag);
    put_key(value, kValueSimple, Wire::kFixed32);
    put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, kSummaryValue, value);
  }
  return file_.append(event_record(step, seconds, kEventSummary, summary));
}

}  // namespace yoke::base
