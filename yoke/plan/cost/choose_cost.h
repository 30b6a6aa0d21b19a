// The cost model for a plan: the one that was asked for, or the best that the profiles allow.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/plan/cost/batch_cost.h"
#include "yoke/profile/profile.h"

namespace yoke::plan {

struct ChosenCost {
  std::unique_ptr<BatchCost> model;
  std::string name;                   // `iidp` or `measured`: what plans call it
  std::vector<std::string> warnings;  // one line each, for people
};

/// `name`: `iidp`; `measured`, which needs profiles of `yoke profile`; or `auto`: measured where the profiles allow it.
/// Input error at `cost` for another name.
base::Result<ChosenCost> choose_cost(const std::string& name, cluster::Cluster cluster,
                                     const profile::ProfileSet& profiles);

}  // namespace yoke::plan
