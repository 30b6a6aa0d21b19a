#include "fuzz/fuzz.h"
#include "yoke/cli/run/metrics_server.h"

/// What anybody on this machine may ask the metrics server: nothing of it may come back in the answer.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string answer = cli::answer_request(fuzz::text_of(data, size), [] { return std::string("page\n"); });
  fuzz::expect(answer.starts_with("HTTP/1.1 ") && answer.find("\r\n\r\n") != std::string::npos, "no answer: " + answer);
  fuzz::expect(answer.size() < 256, "an answer longer than any of ours: " + answer);
  return 0;
}
