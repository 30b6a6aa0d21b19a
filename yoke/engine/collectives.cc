#include "yoke/engine/collectives.h"

namespace yoke::engine {
namespace {

/// `op` is for the memory at the pointer it is given.
template <typename MakeOp>
base::Status run_on(const torch::Tensor& tensor, const MakeOp& make_op, comm::Group& group,
                    const base::Deadline& deadline) {
  const bool direct = tensor.is_cpu() || group.takes_device_memory();
  const torch::Tensor reached = direct ? tensor : tensor.cpu();
  comm::Op op = make_op(static_cast<std::byte*>(reached.data_ptr()));
  op.on_device = !reached.is_cpu();
  YOKE_CHECK(group.run(op, deadline));
  if (!direct) tensor.copy_(reached);
  return {};
}

}  // namespace

base::Status all_reduce(const torch::Tensor& floats, comm::Group& group, const base::Deadline& deadline) {
  base::require(floats.scalar_type() == torch::kFloat32, "a sum of other numbers than f32");
  const auto count = static_cast<std::size_t>(floats.numel());
  return run_on(
      floats, [&](std::byte* at) { return comm::all_reduce(at, count, comm::DType::kF32); }, group, deadline);
}

base::Status broadcast(const torch::Tensor& tensor, int root, comm::Group& group, const base::Deadline& deadline) {
  const auto bytes = static_cast<std::size_t>(tensor.nbytes());
  return run_on(
      tensor, [&](std::byte* at) { return comm::broadcast(at, bytes, comm::DType::kU8, root); }, group, deadline);
}

}  // namespace yoke::engine
