#include "yoke/data/idx.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const auto idx = data::parse_idx(std::string(fuzz::text_of(data, size)), "input");
  if (!fuzz::answered(idx)) return 0;
  std::int64_t values = 1;
  for (const std::int64_t extent : idx->shape) values *= extent;
  fuzz::expect(values == static_cast<std::int64_t>(idx->values.size()), "not as many values as the shape says");
  return 0;
}
