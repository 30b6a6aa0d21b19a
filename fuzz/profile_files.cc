#include "fuzz/fuzz.h"
#include "yoke/profile/profile_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view text = fuzz::text_of(data, size);
  // The kinds have different keys, so each input is at most one of them.
  fuzz::check_round_trip(text, profile::parse_node_file, profile::to_node_json);
  fuzz::check_round_trip(text, profile::parse_buckets_file, profile::to_buckets_json);
  fuzz::check_round_trip(text, profile::parse_comm_file, profile::to_comm_json);
  fuzz::check_round_trip(text, profile::parse_layers_file, profile::to_layers_json);
  return 0;
}
