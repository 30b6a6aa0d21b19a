// How fast the devices of a cluster are, relative to the one a layer profile was taken on. Immutable value.
#pragma once

#include <string>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"

namespace yoke::plan {

class DeviceSpeeds {
 public:
  /// `profiled_on`: the device type of the profile; empty: the one with the most `tflops`. Input error, at the field
  /// `profiled_on`, when the cluster has no such type.
  static base::Result<DeviceSpeeds> make(cluster::Cluster cluster, const std::string& profiled_on);

  /// The node's own `speed`, times its share of the profiled type's `tflops` where it is of another type. Input error
  /// when one of the two is not known.
  base::Result<double> of(const cluster::Node& node) const;
  /// Input error also when the cluster does not have the device.
  base::Result<double> of(const cluster::DeviceId& device) const;

 private:
  DeviceSpeeds(cluster::Cluster cluster, cluster::Node reference)
      : cluster_(std::move(cluster)), reference_(std::move(reference)) {}

  cluster::Cluster cluster_;
  cluster::Node reference_;
};

}  // namespace yoke::plan
