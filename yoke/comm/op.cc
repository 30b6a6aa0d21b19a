#include "yoke/comm/op.h"

#include <fmt/format.h>

#include <algorithm>

#include "yoke/base/error.h"

namespace yoke::comm {

std::string_view to_string(OpKind kind) {
  switch (kind) {
    case OpKind::kAllReduce:
      return "all_reduce";
    case OpKind::kReduceScatter:
      return "reduce_scatter";
    case OpKind::kAllGather:
      return "all_gather";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kBarrier:
      return "barrier";
    case OpKind::kSend:
      return "send";
    case OpKind::kReceive:
      return "receive";
  }
  return "unknown op";
}

Part part_of(std::size_t count, int size, int rank) {
  base::require(size > 0 && rank >= 0 && rank < size, fmt::format("part of rank {} of {}", rank, size));
  const auto ranks = static_cast<std::size_t>(size);
  const auto index = static_cast<std::size_t>(rank);
  const std::size_t share = count / ranks;
  const std::size_t longer = count % ranks;
  return {.begin = index * share + std::min(index, longer), .count = share + (index < longer ? 1 : 0)};
}

Op all_reduce(std::byte* data, std::size_t count, DType dtype, Reduction reduction) {
  return {.kind = OpKind::kAllReduce, .dtype = dtype, .reduction = reduction, .data = data, .count = count};
}

Op reduce_scatter(std::byte* data, std::size_t count, DType dtype, Reduction reduction) {
  return {.kind = OpKind::kReduceScatter, .dtype = dtype, .reduction = reduction, .data = data, .count = count};
}

Op all_gather(std::byte* data, std::size_t count, DType dtype) {
  return {.kind = OpKind::kAllGather, .dtype = dtype, .data = data, .count = count};
}

Op broadcast(std::byte* data, std::size_t count, DType dtype, int root) {
  return {.kind = OpKind::kBroadcast, .dtype = dtype, .data = data, .count = count, .peer = root};
}

Op barrier() {
  return {};
}

Op send(const std::byte* data, std::size_t count, DType dtype, int to, std::uint32_t tag) {
  // An Op has one pointer for all kinds; a send never writes through it.
  auto* bytes = const_cast<std::byte*>(data);
  return {.kind = OpKind::kSend, .dtype = dtype, .data = bytes, .count = count, .peer = to, .tag = tag};
}

Op receive(std::byte* data, std::size_t count, DType dtype, int from, std::uint32_t tag) {
  return {.kind = OpKind::kReceive, .dtype = dtype, .data = data, .count = count, .peer = from, .tag = tag};
}

std::string Signature::to_string() const {
  if (kind == OpKind::kSend) return fmt::format("a message of {} {}", count, comm::to_string(dtype));
  std::string text = fmt::format("{} #{}", comm::to_string(kind), sequence);
  if (kind == OpKind::kBarrier) return text;
  text += fmt::format(" of {} {}", count, comm::to_string(dtype));
  if (kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter) {
    text += fmt::format(" ({})", comm::to_string(reduction));
  }
  if (kind == OpKind::kBroadcast) text += fmt::format(" from rank {}", root);
  return text;
}

Signature signature_of(const Op& op, std::uint64_t sequence) {
  if (op.is_message()) return {.count = op.count, .kind = OpKind::kSend, .dtype = op.dtype};
  return {.sequence = sequence,
          .count = op.count,
          .kind = op.kind,
          .dtype = op.dtype,
          .reduction = op.reduction,
          .root = op.kind == OpKind::kBroadcast ? op.peer : -1};
}

}  // namespace yoke::comm
