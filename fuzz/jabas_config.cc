#include "fuzz/fuzz.h"
#include "yoke/profile/jabas/config.h"
#include "yoke/profile/jabas/initial_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view text = fuzz::text_of(data, size);
  const auto parse = [](std::string_view input, const std::string& file) -> base::Result<profile::jabas::Config> {
    YOKE_TRY(auto imported, profile::jabas::parse_config(input, file));
    return std::move(imported.config);
  };
  fuzz::check_round_trip(text, parse, profile::jabas::to_config_json);
  fuzz::check_round_trip(text, profile::jabas::parse_initial_config, profile::jabas::to_initial_config_json);
  return 0;
}
