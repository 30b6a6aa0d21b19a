// What ranks ask of a group, as values: `group.run(all_reduce(gradients), deadline)`. An Op points at the caller's
// memory, which must stay until the op is done. Every rank launches the same collectives in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "yoke/comm/dtype.h"

namespace yoke::comm {

enum class OpKind : std::uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kBarrier, kSend, kReceive };

std::string_view to_string(OpKind kind);

struct Op {
  OpKind kind = OpKind::kBarrier;
  DType dtype = DType::kU8;
  Reduction reduction = Reduction::kSum;
  std::byte* data = nullptr;
  std::size_t count = 0;   // elements in `data`
  int peer = -1;           // the root of a broadcast, the destination of a send, the source of a receive
  std::uint32_t tag = 0;   // of a send or receive
  bool on_device = false;  // `data` is memory of a GPU: only for groups that take such

  std::size_t bytes() const { return count * size_of(dtype); }
  std::span<std::byte> span() const { return {data, bytes()}; }
  bool is_message() const { return kind == OpKind::kSend || kind == OpKind::kReceive; }
};

/// The elements of one rank when `count` elements are dealt to `size` ranks: the first count % size have one more.
struct Part {
  std::size_t begin = 0;
  std::size_t count = 0;
};
Part part_of(std::size_t count, int size, int rank);

/// Every rank's data becomes the reduction over all ranks, the same bits on each.
Op all_reduce(std::byte* data, std::size_t count, DType dtype, Reduction reduction = Reduction::kSum);
/// This rank's part_of(data) becomes the reduction of that part; the rest of `data` is left unspecified.
Op reduce_scatter(std::byte* data, std::size_t count, DType dtype, Reduction reduction = Reduction::kSum);
/// Each rank has filled its own part_of(data); afterwards every rank has all of it.
Op all_gather(std::byte* data, std::size_t count, DType dtype);
/// Every rank's data becomes the root's.
Op broadcast(std::byte* data, std::size_t count, DType dtype, int root);
/// Returns once every rank has called it.
Op barrier();
/// A message to one rank. Messages with the same (source, destination, tag) arrive in the order sent; count and dtype
/// must be those of the receive.
Op send(const std::byte* data, std::size_t count, DType dtype, int to, std::uint32_t tag = 0);
Op receive(std::byte* data, std::size_t count, DType dtype, int from, std::uint32_t tag = 0);

template <typename T, std::size_t N>
Op all_reduce(std::span<T, N> data, Reduction reduction = Reduction::kSum) {
  return all_reduce(reinterpret_cast<std::byte*>(data.data()), data.size(), dtype_of<T>(), reduction);
}
template <typename T, std::size_t N>
Op reduce_scatter(std::span<T, N> data, Reduction reduction = Reduction::kSum) {
  return reduce_scatter(reinterpret_cast<std::byte*>(data.data()), data.size(), dtype_of<T>(), reduction);
}
template <typename T, std::size_t N>
Op all_gather(std::span<T, N> data) {
  return all_gather(reinterpret_cast<std::byte*>(data.data()), data.size(), dtype_of<T>());
}
template <typename T, std::size_t N>
Op broadcast(std::span<T, N> data, int root) {
  return broadcast(reinterpret_cast<std::byte*>(data.data()), data.size(), dtype_of<T>(), root);
}
template <typename T, std::size_t N>
Op send(std::span<const T, N> data, int to, std::uint32_t tag = 0) {
  return send(reinterpret_cast<const std::byte*>(data.data()), data.size(), dtype_of<T>(), to, tag);
}
template <typename T, std::size_t N>
Op receive(std::span<T, N> data, int from, std::uint32_t tag = 0) {
  return receive(reinterpret_cast<std::byte*>(data.data()), data.size(), dtype_of<T>(), from, tag);
}

/// What must be equal on all ranks of one collective (on both sides of one message). Backends send it ahead of the
/// data, so that ranks that disagree are told so instead of computing garbage. Plain bytes: it travels as it is.
struct Signature {
  std::uint64_t sequence = 0;  // the collective's number in its group; 0 for messages
  std::uint64_t count = 0;
  OpKind kind = OpKind::kBarrier;
  DType dtype = DType::kU8;
  Reduction reduction = Reduction::kSum;
  std::uint8_t unused = 0;
  std::int32_t root = -1;  // of a broadcast

  bool operator==(const Signature&) const = default;
  /// `all_reduce #7 of 100 f32 (sum)`
  std::string to_string() const;
};
static_assert(sizeof(Signature) == 24);

/// `sequence` is ignored for messages. A send and its receive have the same signature.
Signature signature_of(const Op& op, std::uint64_t sequence);

}  // namespace yoke::comm
