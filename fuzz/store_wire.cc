#include "fuzz/fuzz.h"
#include "yoke/base/error.h"
#include "yoke/comm/store/wire.h"

/// What may come from a stranger on the store's port: frames, requests and replies.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  std::string buffer(fuzz::text_of(data, size));
  bool garbage = false;
  while (const auto frame = comm::take_frame(buffer, garbage)) {
    if (const auto request = comm::decode_request(*frame)) {
      std::string again = comm::encode(*request);
      base::require(comm::decode_request(*comm::take_frame(again, garbage)) == request, "a request does not read back");
    }
    if (const auto reply = comm::decode_reply(*frame)) {
      std::string again = comm::encode(*reply);
      bool ignored = false;  // what is written may be larger than what we would read
      if (const auto whole = comm::take_frame(again, ignored)) {
        base::require(comm::decode_reply(*whole) == reply, "a reply does not read back");
      }
    }
  }
  return 0;
}
