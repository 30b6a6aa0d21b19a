// Taking over tensors by name: all of them or none.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/engine/checkpoint/checkpoint.h"

namespace yoke::engine {

/// Tensors that were found to correspond, to be copied when all else fits too.
class TensorCopies {
 public:
  /// Input error, which names `where` and the first tensor that is missing, unknown or of another size or type.
  static base::Result<TensorCopies> match(const NamedTensors& to, const NamedTensors& from, const std::string& where);

  void copy() const;

 private:
  std::vector<std::pair<torch::Tensor, torch::Tensor>> pairs_;  // to, from
};

}  // namespace yoke::engine
