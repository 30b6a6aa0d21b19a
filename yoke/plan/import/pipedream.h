// What PipeDream's driver file says about the machines, as a cluster.
#pragma once

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/profile/pipedream/driver.h"

namespace yoke::plan {

/// One node per host, in order of first mention, with as many devices as the file lists on it. The numbers after the
/// colon do not count: PipeDream's own files number the devices of one host from 0 or go on from the host before.
base::Result<cluster::Cluster> cluster_of(const profile::pipedream::Driver& driver);

}  // namespace yoke::plan
