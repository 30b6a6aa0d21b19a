#include "fuzz/fuzz.h"
#include "yoke/cli/run/rendezvous.h"

/// What ranks tell rank 0 of where they run, and what rank 0 tells them to train: a setup, or its error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string text(fuzz::text_of(data, size));
  fuzz::check_round_trip(
      text, [](std::string_view json, const std::string&) { return cli::parse_place(std::string(json)); },
      [](const cli::RankPlace& place) { return cli::to_json(place).dump(); });
  const auto setup = cli::parse_setup(text);
  if (!setup.ok()) {
    fuzz::expect_one_line(setup.error().to_string());
    return 0;
  }
  // As text: jobs and plans have targets of their own.
  const std::string written = cli::to_json(*setup);
  const auto again = cli::parse_setup(written);
  if (!again.ok()) fuzz::expect(false, "cannot read what was written: " + again.error().to_string() + "\n" + written);
  fuzz::expect(cli::to_json(*again) == written, "reads back differently:\n" + written);
  return 0;
}
