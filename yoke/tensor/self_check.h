// Shows that libtorch loads and computes. This header is free of torch, so that `cli` can ask without including it.
#pragma once

#include <string>

#include "yoke/base/result.h"

namespace yoke::tensor {

struct TorchReport {
  std::string version;  // of the headers we were built with
  int threads = 0;      // intra-op threads that kernels will use
  bool cuda = false;    // a CUDA device can be used
};

/// Runs a small forward and backward pass and compares the gradient with its closed form.
base::Result<TorchReport> check_torch();

}  // namespace yoke::tensor
