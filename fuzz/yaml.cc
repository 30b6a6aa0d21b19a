#include "fuzz/fuzz.h"
#include "yoke/base/document.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::answered(base::parse_yaml(text, "input"));
  return 0;
}
