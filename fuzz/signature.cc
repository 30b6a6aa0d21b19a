#include <cstring>

#include "fuzz/fuzz.h"
#include "yoke/comm/backend.h"

/// What another rank sends ahead of its data, just as it comes: it is compared with ours, and shown where it differs.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  comm::Signature theirs;
  if (size < sizeof(theirs)) return 0;
  std::memcpy(&theirs, data, sizeof(theirs));
  const comm::Signature ours{.sequence = 7, .count = 100, .kind = comm::OpKind::kAllReduce, .dtype = comm::DType::kF32};
  if (theirs == ours) return 0;
  fuzz::expect_one_line(comm::mismatch(1, ours, theirs).detail);
  return 0;
}
