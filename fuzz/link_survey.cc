#include "yoke/cli/link_survey.h"

#include "fuzz/fuzz.h"

/// What one rank tells the others to measure.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  fuzz::check_round_trip(
      fuzz::text_of(data, size), [](std::string_view json, const std::string&) { return cli::parse_survey(json); },
      [](const cli::SurveySetup& setup) { return cli::to_json(setup).dump(); });
  return 0;
}
