// What stands ahead of the tensors of every flow between pipeline stages (flow_mail.h): whose it is, and which tensors
// with which shapes follow. Free of torch: plain values and pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/plan/schedule.h"

namespace yoke::engine {

struct FlowHeader {
  struct Entry {
    std::string name;
    std::int8_t type = 0;             // of the elements: torch's number of it, which the receiver has to check
    std::vector<std::int64_t> shape;  // empty: a scalar
    bool defined = true;              // false: a gradient that does not exist; no bytes follow for it
    bool wants_gradient = false;
    bool operator==(const Entry&) const = default;
  };
  std::int64_t worker = 0;
  plan::Payload payload = plan::Payload::kActivations;
  std::vector<Entry> entries;
  bool operator==(const FlowHeader&) const = default;
};

/// Input error for a header that needs more bytes than there are; what is behind it is left as it was.
base::Status encode(const FlowHeader& header, std::span<std::byte> into);
/// A peer's bytes: anything that is not a header is a peer error. A shape has 2^40 elements at most.
base::Result<FlowHeader> decode_flow_header(std::span<const std::byte> bytes);

}  // namespace yoke::engine
