#include "yoke/engine/flow_header.h"

#include <algorithm>
#include <vector>

#include "fuzz/fuzz.h"

/// What another stage sends ahead of its tensors.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const auto header = engine::decode_flow_header(std::as_bytes(std::span(data, size)));
  if (!header.ok()) {
    fuzz::expect(header.error().kind == base::ErrorKind::kPeer, "not a peer error: " + header.error().to_string());
    return 0;
  }
  for (const auto& entry : header->entries) {
    std::int64_t elements = 1;
    for (const auto length : entry.shape) elements *= std::max<std::int64_t>(1, length);
    fuzz::expect(elements >= 1 && elements <= std::int64_t{1} << 40, "a shape without bounds");
  }
  // What was read says nothing that was not there, so it fits where it came from.
  std::vector<std::byte> written(size);
  fuzz::expect(engine::encode(*header, written).ok(), "a header needs more than it came in");
  const auto again = engine::decode_flow_header(written);
  fuzz::expect(again.ok() && *again == *header, "a header does not read back");
  return 0;
}
