#include "yoke/cli/host_word.h"

#include "fuzz/fuzz.h"

/// An entry of the log in which hosts that run the same command talk to each other.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  constexpr int kHosts = 12;
  const auto word = cli::decode_host_word(fuzz::text_of(data, size), kHosts);
  if (!word) return 0;
  fuzz::expect(word->rank >= 0 && word->rank < kHosts, "a host that is not there");
  fuzz::expect(cli::decode_host_word(cli::encode(*word), kHosts) == word, "a word does not read back");
  return 0;
}
