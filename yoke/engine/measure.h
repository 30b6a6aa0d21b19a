// How long the parts of a step take on this device and in this group: for planning. The state stays as it is.
#pragma once

#include <cstdint>
#include <vector>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"
#include "yoke/comm/group.h"
#include "yoke/data/dataset.h"
#include "yoke/engine/data_lane.h"
#include "yoke/engine/holding.h"
#include "yoke/tensor/device.h"

namespace yoke::engine {

/// Seconds of a device's own part of a step.
struct Measurement {
  double data = 0;
  double forward = 0;
  double backward = 0;
  std::int64_t peak_bytes = 0;  // of the device's memory; 0: not counted
};

/// What passes run on, all borrowed.
struct MeasuredLane {
  Holding& holding;
  DataLane& lane;
  const data::Dataset& data;
  tensor::Device& device;
  std::uint64_t seed = 0;
};

/// Forward and backward passes of workers of `lbs` samples, `vsw` at a time, without an update.
base::Result<Measurement> measure_passes(const MeasuredLane& on, int lbs, int vsw, base::Duration patience,
                                         const base::Clock& clock);
/// Seconds of updating all buckets on a device of that speed. Precondition: no step was done yet.
double measure_update(Holding& holding, double speed, const base::Clock& clock);
/// Seconds of reducing all buckets. Every rank of the group calls it.
base::Result<double> measure_all_reduce(const Holding& holding, comm::Group& group, base::Duration patience,
                                        const base::Clock& clock);
/// The sizes of the gradient buckets in MiB, without the gaps between parameters.
std::vector<double> bucket_mebibytes(const Holding& holding);

}  // namespace yoke::engine
