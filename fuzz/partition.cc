#include "yoke/profile/pipedream/partition.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view text = fuzz::text_of(data, size);
  const auto parse = [](std::string_view input,
                        const std::string& file) -> base::Result<profile::pipedream::Partition> {
    YOKE_TRY(auto imported, profile::pipedream::parse_partition(input, file));
    return std::move(imported.partition);
  };
  fuzz::check_round_trip(text, parse, profile::pipedream::to_partition_json);
  return 0;
}
