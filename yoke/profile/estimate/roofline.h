// Times from counts: an op takes as long as its arithmetic or its bytes, whichever is longer, and a little more to get
// started. What a device reaches of its published peaks is in four constants, which were fitted once, see
// docs/profiling-network.md; they are no measurement of any device.
#pragma once

#include "yoke/profile/estimate/devices.h"

namespace yoke::profile {

enum class Precision { kFp32, kHalf };

enum class WorkKind {
  kMoving,       // memory is the limit
  kMatrix,       // products of matrices, and most convolutions
  kConvolution3  // 3x3 with stride 1, which need fewer multiplications than they are counted with
};

/// One op with f32 data.
struct Work {
  WorkKind kind = WorkKind::kMoving;
  int kernels = 1;
  double flops = 0;
  double bytes = 0;
};

// Shares of the published peaks.
inline constexpr double kMatrixShare = 0.72;
inline constexpr double kConvolution3Share =
    1.4;  // of what is counted: Winograd's algorithm multiplies 2.25 times less
inline constexpr double kMemoryShare = 0.8;
/// From the host's ordinary memory, which the device cannot read by itself.
inline constexpr double kHostShare = 0.3;
/// Of an all-reduce between devices, of what `4 (n-1)/n bytes / bandwidth` asks for.
inline constexpr double kAllReduceShare = 0.8;
inline constexpr double kAllReduceSeconds = 1e-3;
/// For starting a kernel and for the last threads of it, when the device is not full.
inline constexpr double kKernelSeconds = 30e-6;

/// Seconds that a device is busy with an op, without getting started.
double busy_seconds(const Work& work, const DeviceSheet& device, Precision precision);

}  // namespace yoke::profile
