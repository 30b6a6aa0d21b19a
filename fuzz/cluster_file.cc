#include "yoke/cluster/cluster_file.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::check_round_trip(text, cluster::parse_cluster, cluster::to_cluster_yaml);
  return 0;
}
