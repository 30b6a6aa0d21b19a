#include "yoke/plan/job.h"

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  fuzz::check_round_trip(
      fuzz::text_of(data, size),
      [](std::string_view yaml, const std::string& file) { return plan::parse_job(yaml, file); }, plan::to_yaml);
  return 0;
}
