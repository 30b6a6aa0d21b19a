#include "fuzz/fuzz.h"
#include "yoke/cli/run/recorder.h"

/// metrics.jsonl of a run that goes on: the lines of the steps that count are kept, whatever else is in it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  constexpr std::int64_t kFirst = 5;
  const std::string_view metrics = fuzz::text_of(data, size);
  const std::string kept = cli::metrics_before(metrics, kFirst);
  fuzz::expect(kept.size() <= metrics.size() && (kept.empty() || kept.ends_with('\n')), "more than there was: " + kept);
  fuzz::expect(cli::metrics_before(kept, kFirst) == kept, "not all of it is kept again: " + kept);
  return 0;
}
