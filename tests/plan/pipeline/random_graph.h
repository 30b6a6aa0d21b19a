// Small random layer graphs for property tests.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "yoke/profile/layer_graph.h"

namespace yoke::plan {

/// Integers from a seeded generator, the same on every platform.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  /// From `least` to `most`, both included.
  int pick(int least, int most) {
    return least + static_cast<int>(engine_() % static_cast<unsigned>(most - least + 1));
  }
  bool coin() { return pick(0, 1) == 1; }

 private:
  std::mt19937 engine_;
};

/// A layer named `l<i>` with random costs; times are a multiple of 1 ms and may be 0.
inline profile::Layer random_layer(Random& random, int index) {
  profile::Layer layer{.id = "l" + std::to_string(index),
                       .description = "Layer",
                       .forward_ms = static_cast<double>(random.pick(0, 20)),
                       .backward_ms = static_cast<double>(random.pick(0, 40)),
                       .output_bytes = {1e6 * random.pick(0, 30)},
                       .parameter_bytes = 1e6 * random.pick(0, 50)};
  layer.update_ms = layer.parameter_bytes / 1e6;
  return layer;
}

/// Layer 0 is the only source. A chain, or a graph in which every other layer has one to three earlier predecessors.
inline profile::LayerGraph random_graph(Random& random, int layers, bool chain) {
  std::vector<profile::Layer> list;
  std::vector<profile::Edge> edges;
  for (int i = 0; i < layers; ++i) {
    list.push_back(random_layer(random, i));
    if (i == 0) continue;
    const int predecessors = chain ? 1 : random.pick(1, 3);
    for (int p = 0; p < predecessors; ++p) edges.push_back({chain ? i - 1 : random.pick(0, i - 1), i});
  }
  return profile::LayerGraph::make(std::move(list), std::move(edges)).value();
}

/// A chain of layers with the given forward times; backward, sizes and weights are zero.
inline profile::LayerGraph chain_graph(const std::vector<double>& forward_ms) {
  std::vector<profile::Layer> list;
  std::vector<profile::Edge> edges;
  for (std::size_t i = 0; i < forward_ms.size(); ++i) {
    list.push_back({.id = "l" + std::to_string(i), .description = "Layer", .forward_ms = forward_ms[i]});
    if (i > 0) edges.push_back({static_cast<int>(i) - 1, static_cast<int>(i)});
  }
  return profile::LayerGraph::make(std::move(list), std::move(edges)).value();
}

}  // namespace yoke::plan
