// A model of a few round numbers, to be bent by tests.
#pragma once

#include <string>
#include <vector>

#include "yoke/plan/cost/iidp_model.h"

namespace yoke::plan::testing {

/// Equal nodes `a`, `b`, .. of one type; only the first was profiled, at local batch size 8.
struct Small {
  cluster::Node node{.name = "a",
                     .devices = 2,
                     .type = "gpu",
                     .intra_bandwidth = base::Bandwidth{1e10},
                     .inter_bandwidth = base::Bandwidth{1e9}};
  profile::ProfileSet profiles{
      .model = "m",
      .nodes = {{.node = "a",
                 .device_type = "gpu",
                 .by_lbs = {{8,
                             {.max_vsw = 2,
                              .compute = {{.vsw = 1, .data_ms = 1, .forward_ms = 10, .backward_ms = 20, .update_ms = 1},
                                          {.vsw = 2, .data_ms = 2, .forward_ms = 18, .backward_ms = 36}}}}}}},
      .buckets = {{1, 2}},
      .comm = {.intra = {{1, 2}, {2, 3}}, .inter = {{1, 4}, {2, 6}}}};

  base::Result<IidpModel> model(int nodes = 2) const {
    std::vector<cluster::Node> all(static_cast<std::size_t>(nodes), node);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].name = std::string(1, static_cast<char>('a' + i));
    return IidpModel::make(cluster::Cluster::make(all).value(), profiles);
  }
};

}  // namespace yoke::plan::testing
