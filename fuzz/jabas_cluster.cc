#include "yoke/cluster/jabas_cluster.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view text = fuzz::text_of(data, size);
  const auto parse = [](std::string_view input, const std::string& file) -> base::Result<cluster::Cluster> {
    YOKE_TRY(auto imported, cluster::parse_jabas_cluster(input, file));
    return std::move(imported.cluster);
  };
  const auto write = [](const cluster::Cluster& value) { return *cluster::to_jabas_cluster(value); };
  fuzz::check_round_trip(text, parse, write);
  return 0;
}
