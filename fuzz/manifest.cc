#include "yoke/engine/checkpoint/manifest.h"
#include "fuzz/fuzz.h"

/// Without regard to the seal, which random text would never have; but what is written has a good one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view text = fuzz::text_of(data, size);
  (void)fuzz::answered(engine::check_seal(text, "input"));
  const auto manifest = engine::parse_manifest(text, "input");
  if (!fuzz::answered(manifest)) return 0;
  const std::string written = engine::to_json(*manifest);
  fuzz::expect(engine::check_seal(written, "written").ok(), "a broken seal:\n" + written);
  const auto again = engine::parse_manifest(written, "written");
  if (!again.ok()) fuzz::expect(false, "cannot read what was written: " + again.error().to_string() + "\n" + written);
  // As text: a loss that is not a number is not equal to itself.
  fuzz::expect(engine::to_json(*again) == written, "reads back differently:\n" + written);
  return 0;
}
