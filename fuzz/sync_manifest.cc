#include "fuzz/fuzz.h"
#include "yoke/base/text.h"
#include "yoke/cli/profile_files.h"

/// The files that another host says it has: names that `yoke profile sync` writes to.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string text(fuzz::text_of(data, size));
  fuzz::check_round_trip(
      text, [](std::string_view json, const std::string& host) { return cli::parse_manifest(std::string(json), host); },
      cli::to_manifest);
  const auto files = cli::parse_manifest(text, "a");
  if (!files.ok()) return 0;
  for (const auto& file : *files) {
    for (const std::string_view part : base::split(file.name, "/")) {
      fuzz::expect(base::is_plain_name(part), "leads elsewhere: " + file.name);
    }
  }
  // A host against itself: whatever it has, two of the same are no conflict that crashes.
  const auto united = cli::unite({{"a", *files}, {"b", *files}}, std::nullopt);
  if (!fuzz::answered(united)) return 0;
  for (const auto& shared : *united) fuzz::expect(shared.owner == 0, "the first host has it too: " + shared.file.name);
  return 0;
}
