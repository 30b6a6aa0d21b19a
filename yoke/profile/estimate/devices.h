// What makers publish of their devices: enough to estimate a step on one that is not here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/result.h"

namespace yoke::profile {

/// From data sheets: peaks that no program reaches, sizes in bytes as the device reports them (rounded).
struct DeviceSheet {
  std::string_view name;  // what people type
  std::string_view type;  // as in cluster files, e.g. Tesla V100-PCIE-16GB
  double fp32_flops = 0;  // a second
  double half_flops = 0;  // fp16 or bf16 with fp32 sums, tensor cores where it has them
  double memory_bytes_per_s = 0;
  double memory_bytes = 0;
  double host_bytes_per_s = 0;  // to and from the host's memory, one way
  double peer_bytes_per_s = 0;  // to the devices beside it, one way
};

std::span<const DeviceSheet> known_devices();
/// Input error that names the nearest, and how to see all.
base::Result<DeviceSheet> find_device(std::string_view name);

}  // namespace yoke::profile
