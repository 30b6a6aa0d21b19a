#include "yoke/profile/pipedream/graph_text.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::check_round_trip(text, profile::pipedream::parse_graph_text, profile::pipedream::to_graph_text);
  return 0;
}
