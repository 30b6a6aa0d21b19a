#include "yoke/cli/run/run_result.h"

#include "fuzz/fuzz.h"

/// result.json of a run, which rank 0 writes and `yoke run` reads.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const auto result = cli::parse_result(fuzz::text_of(data, size), "input");
  if (!fuzz::answered(result)) return 0;
  (void)cli::summarize(*result, "folder");
  // As text: a loss that is not a number is not equal to itself.
  const std::string written = cli::to_json(*result).dump();
  const auto again = cli::parse_result(written, "written");
  if (!again.ok()) fuzz::expect(false, "cannot read what was written: " + again.error().to_string() + "\n" + written);
  fuzz::expect(cli::to_json(*again).dump() == written, "reads back differently:\n" + written);
  return 0;
}
