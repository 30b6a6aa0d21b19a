// Tensors to and from safetensors files, with a checksum of each on the way: bytes go straight between the tensors'
// memory and the file, and are summed while they are in the cache.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/engine/checkpoint/checkpoint.h"
#include "yoke/engine/checkpoint/manifest.h"

namespace yoke::engine {

/// Publishes the file; what is returned goes into the manifest. Errors as write_safetensors().
base::Result<FileChecksums> write_tensor_file(const std::string& path, const NamedTensors& tensors,
                                              const std::vector<std::pair<std::string, std::string>>& metadata);

/// In the order of the header. With `expected`, an input error names what is not as it was written: the file by its
/// size, its header, or the tensor.
base::Result<NamedTensors> read_tensor_file(const std::string& path, const FileChecksums* expected);

}  // namespace yoke::engine
