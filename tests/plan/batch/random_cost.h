// A cost model of made-up numbers, for checking solvers against brute force: gains from several workers at once are not
// monotone, memory limits differ, some classes cannot run some local batch sizes, and the extent changes every time.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "yoke/plan/cost/batch_cost.h"

namespace yoke::plan::testing {

class RandomCost final : public BatchCost {
 public:
  struct Shape {
    int most_nodes = 3;
    int most_devices = 3;  // of a node
    int most_classes = 2;
    int most_vsw = 4;
    std::vector<int> local_batch_sizes = {2, 3};
  };

  RandomCost(std::mt19937& random, const Shape& shape)
      : cluster_(make_cluster(random, shape)), local_batch_sizes_(shape.local_batch_sizes) {
    const int classes = uniform(random, 1, shape.most_classes);
    std::map<int, int> seen;  // drawn class -> class by order of appearance
    for (std::size_t i = 0; i < cluster_.nodes().size(); ++i) {
      const int drawn = uniform(random, 1, classes);
      node_classes_.push_back(seen.emplace(drawn, static_cast<int>(seen.size())).first->second);
    }
    // Whole milliseconds, so that equal times, hence ties, are common.
    for (std::size_t device_class = 0; device_class < seen.size(); ++device_class) {
      for (const int lbs : local_batch_sizes_) {
        const bool missing = uniform(random, 1, 10) == 1;
        auto& lanes = lanes_[{static_cast<int>(device_class), lbs}];
        const int speed = uniform(random, 1, 4);
        const int most_vsw = missing ? 0 : uniform(random, 1, shape.most_vsw);
        for (int vsw = 1; vsw <= most_vsw; ++vsw) {
          const int compute = lbs * speed * vsw * uniform(random, 4, 12) / 4;
          lanes.push_back({.first_round = 1e-3 * (compute + uniform(random, 0, 3)), .further_round = 1e-3 * compute});
        }
      }
    }
    reduce_ = 1e-3 * uniform(random, 0, 20);
    across_ = 1e-3 * uniform(random, 0, 20);  // packing on one node never costs more, as Pool assumes
  }

  const cluster::Cluster& cluster() const override { return cluster_; }
  const std::vector<int>& node_classes() const override { return node_classes_; }
  const std::vector<int>& local_batch_sizes() const override { return local_batch_sizes_; }
  int max_vsw(int device_class, int lbs) const override {
    return static_cast<int>(lanes_.at({device_class, lbs}).size());
  }
  LaneCost lane(int device_class, int lbs, int vsw, Sync sync, Extent extent) const override {
    LaneCost cost = lanes_.at({device_class, lbs}).at(static_cast<std::size_t>(vsw - 1));
    cost.first_round += reduce_ * (extent.devices - 1) / extent.devices;
    if (extent.across_nodes) cost.first_round += across_;
    if (sync == Sync::kSequential) cost.first_round += 1e-3;
    return cost;
  }
  StepParts parts(int device_class, const LaneWork& work, Sync sync, Extent extent) const override {
    return {.forward = step_seconds(device_class, work, sync, extent)};
  }
  Sync recommended_sync() const override { return Sync::kSequential; }

  static int uniform(std::mt19937& random, int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  }

 private:
  static cluster::Cluster make_cluster(std::mt19937& random, const Shape& shape) {
    std::vector<cluster::Node> nodes(static_cast<std::size_t>(uniform(random, 1, shape.most_nodes)));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      nodes[i].name = "n" + std::to_string(i);
      nodes[i].devices = uniform(random, 1, shape.most_devices);
      nodes[i].price_per_hour = uniform(random, 1, 3);
    }
    return cluster::Cluster::make(nodes).value();
  }

  cluster::Cluster cluster_;
  std::vector<int> node_classes_;
  std::vector<int> local_batch_sizes_;
  std::map<std::pair<int, int>, std::vector<LaneCost>> lanes_;  // by class and lbs, of 1, 2, .. workers at once
  double reduce_ = 0;
  double across_ = 0;
};

}  // namespace yoke::plan::testing
