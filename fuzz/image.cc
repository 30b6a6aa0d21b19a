#include "fuzz/fuzz.h"
#include "yoke/data/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  constexpr int kSmall = 1 << 18;  // pixels; more would only make the search slow
  data::ImageDecoder decoder;
  const auto image = decoder.open(fuzz::text_of(data, size), "input");
  if (!fuzz::answered(image) || image->width > kSmall / image->height) return 0;
  for (const int reduction : {1, 4}) {
    const auto pixels = decoder.decode(reduction);
    if (!fuzz::answered(pixels)) continue;
    const auto reduced = [&](int extent) { return (extent + pixels->reduction - 1) / pixels->reduction; };
    const data::ImageSize expected{reduced(image->width), reduced(image->height)};
    fuzz::expect(pixels->size == expected, "not the size of the header");
    // Every byte is there to be read.
    const std::ptrdiff_t bytes = std::ptrdiff_t{3} * expected.width * expected.height;
    unsigned sum = 0;
    for (std::ptrdiff_t i = 0; i < bytes; ++i) sum += pixels->data[i];
    fuzz::expect(sum <= 255U * static_cast<unsigned>(bytes), "bytes above 255");
  }
  return 0;
}
