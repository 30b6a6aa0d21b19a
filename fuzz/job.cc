#include "yoke/plan/job.h"

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  fuzz::check_round_trip(fuzz::text_of(data, size), plan::parse_job, plan::to_yaml);
  return 0;
}
