#include "yoke/engine/tensor_copies.h"

#include <fmt/format.h>

#include <map>

namespace yoke::engine {

base::Result<TensorCopies> TensorCopies::match(const NamedTensors& to, const NamedTensors& from,
                                               const std::string& where) {
  std::map<std::string_view, const torch::Tensor*> by_name;
  for (const auto& [name, tensor] : from) by_name[name] = &tensor;
  TensorCopies copies;
  for (const auto& [name, tensor] : to) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      return base::input_error(fmt::format("has no `{}`; expected the tensors of this job's model and optimizer", name),
                               {.file = where});
    }
    if (found->second->numel() != tensor.numel() || found->second->scalar_type() != tensor.scalar_type()) {
      return base::input_error(
          fmt::format("`{}` has {} elements of {}; expected {} of {}", name, found->second->numel(),
                      c10::toString(found->second->scalar_type()), tensor.numel(), c10::toString(tensor.scalar_type())),
          {.file = where});
    }
    copies.pairs_.emplace_back(tensor, *found->second);
    by_name.erase(found);
  }
  if (!by_name.empty()) {
    return base::input_error(
        fmt::format("has `{}`, which this job's model and optimizer do not know", by_name.begin()->first),
        {.file = where});
  }
  return copies;
}

void TensorCopies::copy() const {
  const torch::NoGradGuard no_grad;
  for (auto [to, from] : pairs_) to.copy_(from.view(to.sizes()));
}

}  // namespace yoke::engine
