#include "fuzz/fuzz.h"
#include "yoke/engine/checkpoint/safetensors_header.h"

/// A whole file, of which the header is read. What it describes lies within the file and survives being written again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view file = fuzz::text_of(data, size);
  const auto file_bytes = static_cast<std::int64_t>(size);
  const auto length = engine::read_header_length(file.substr(0, engine::kLengthBytes), file_bytes, "input");
  if (!fuzz::answered(length)) return 0;
  const auto text = file.substr(engine::kLengthBytes, static_cast<std::size_t>(*length));
  const std::int64_t data_bytes = file_bytes - engine::kLengthBytes - *length;
  auto header = engine::parse_header(text, data_bytes, "input");
  if (!fuzz::answered(header)) return 0;
  for (const auto& entry : header->tensors) {
    fuzz::expect(0 <= entry.begin && entry.begin <= entry.end && entry.end <= data_bytes, "outside of the file");
  }
  const auto written = engine::encode_header(*header, "written");
  if (!written.ok()) fuzz::expect(false, "cannot write what was read: " + written.error().to_string());
  const auto again =
      engine::parse_header(std::string_view(*written).substr(engine::kLengthBytes), data_bytes, "written");
  fuzz::expect(again.ok() && *again == *header, "reads back differently: " + *written);
  engine::SafetensorsHeader placed = *header;
  engine::place_tensors(placed);
  return 0;
}
