#include "fuzz/fuzz.h"
#include "yoke/profile/jabas/profile_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view text = fuzz::text_of(data, size);
  // The kinds have different keys, so each input is at most one of them.
  fuzz::answered(profile::jabas::parse_compute_file(text, "input"));
  fuzz::answered(profile::jabas::parse_memory_file(text, "input"));
  fuzz::answered(profile::jabas::parse_bucket_file(text, "input"));
  fuzz::check_round_trip(text, profile::jabas::parse_comm_file, profile::jabas::to_comm_text);
  return 0;
}
