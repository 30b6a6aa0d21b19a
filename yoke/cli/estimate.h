// The profile of a model on a device that is not here, from what the model computes and what the device's maker says.
// Marked as an estimate wherever it goes. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/models/op_counts.h"
#include "yoke/profile/estimate/devices.h"
#include "yoke/profile/estimate/roofline.h"
#include "yoke/profile/layer_graph.h"
#include "yoke/profile/profile.h"

namespace yoke::cli {

struct EstimateRequest {
  std::string node;                    // what the node is called
  std::vector<int> local_batch_sizes;  // ascending, at least one
  profile::Precision precision = profile::Precision::kFp32;
  double network_bytes_per_s = 1.25e9;  // between hosts
};

struct Estimate {
  profile::NodeProfile node;
  profile::LayerGraph layers;  // at the smallest local batch size
  profile::BucketProfile buckets;
  profile::CommProfile comm;
};

/// Infeasible when not even one worker of the smallest batch fits the device.
base::Result<Estimate> estimate_profile(const models::ModelCount& model, const profile::DeviceSheet& device,
                                        const EstimateRequest& request);

/// A step of `vsw` workers at once on one device.
profile::ComputeSample estimate_sample(const models::ModelCount& model, int lbs, int vsw,
                                       const profile::DeviceSheet& device, profile::Precision precision);
/// How many workers fit the device's memory.
int most_workers(const models::ModelCount& model, int lbs, const profile::DeviceSheet& device,
                 profile::Precision precision);

}  // namespace yoke::cli
