#include "yoke/profile/estimate/roofline.h"

#include <algorithm>

namespace yoke::profile {

double busy_seconds(const Work& work, const DeviceSheet& device, Precision precision) {
  const bool half = precision == Precision::kHalf;
  const double bytes = half ? work.bytes / 2 : work.bytes;
  const double moving = bytes / (device.memory_bytes_per_s * kMemoryShare);
  if (work.kind == WorkKind::kMoving) return moving;
  // Tensor cores multiply as they are told: no algorithm saves them multiplications.
  const double share = work.kind == WorkKind::kConvolution3 && !half ? kConvolution3Share : kMatrixShare;
  return std::max(moving, work.flops / ((half ? device.half_flops : device.fp32_flops) * share));
}

}  // namespace yoke::profile
