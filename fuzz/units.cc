#include <cmath>

#include "fuzz/fuzz.h"
#include "yoke/base/units.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto bytes = base::parse_bytes(text); fuzz::answered(bytes)) {
    fuzz::expect(bytes->count >= 0, "negative bytes");
    fuzz::expect(*base::parse_bytes(std::to_string(bytes->count)) == *bytes, "bytes read back differently");
    fuzz::expect(!base::format(*bytes).empty(), "no text for bytes");
  }
  if (const auto rate = base::parse_bandwidth(text); fuzz::answered(rate)) {
    fuzz::expect(rate->bytes_per_s >= 0 && std::isfinite(rate->bytes_per_s), "a bandwidth that is none");
  }
  if (const auto wait = base::parse_duration(text); fuzz::answered(wait)) {
    fuzz::expect(wait->count() >= 0, "a negative duration");
    fuzz::expect(!base::format_seconds(base::to_seconds(*wait)).empty(), "no text for a duration");
  }
  if (const auto number = base::parse_number(text); fuzz::answered(number)) {
    fuzz::expect(*base::parse_number(base::exact(*number)) == *number, "a number reads back differently");
  }
  if (const auto whole = base::parse_integer(text); fuzz::answered(whole)) {
    fuzz::expect(*base::parse_integer(std::to_string(*whole)) == *whole, "an integer reads back differently");
  }
  return 0;
}
