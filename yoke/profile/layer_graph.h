// The layer profile of a model: an acyclic graph of layers with the times and sizes of one minibatch. Immutable value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/profile/confidence.h"
#include "yoke/profile/source.h"

namespace yoke::profile {

struct Layer {
  std::string id;           // one line without ` -- ` and without blanks around it
  std::string description;  // layer type and arguments, any text on one line
  double forward_ms = 0;
  double backward_ms = 0;
  std::vector<double> output_bytes{0.0};  // one entry per output tensor
  double parameter_bytes = 0;
  double update_ms = 0;      // of the optimizer, once a step; 0: not known
  std::optional<int> stage;  // where a partitioner put it

  /// All outputs together.
  double activation_bytes() const;
  bool operator==(const Layer&) const = default;
};

/// Indices into layers().
struct Edge {
  int from = 0;
  int to = 0;
  bool operator==(const Edge&) const = default;
};

class LayerGraph {
 public:
  /// Checks: at least one layer, ids unique and plain, edges between known layers, no cycle (the message names one),
  /// numbers finite and not negative. Parallel edges are kept. `where.file` is put into the message.
  static base::Result<LayerGraph> make(std::vector<Layer> layers, std::vector<Edge> edges,
                                       const base::Where& where = {});

  const std::vector<Layer>& layers() const { return layers_; }
  const std::vector<Edge>& edges() const { return edges_; }
  int size() const { return static_cast<int>(layers_.size()); }
  /// Neighbours in the order of the edges, parallel edges repeated.
  const std::vector<int>& successors(int layer) const { return successors_[static_cast<std::size_t>(layer)]; }
  const std::vector<int>& predecessors(int layer) const { return predecessors_[static_cast<std::size_t>(layer)]; }
  /// Every layer after its predecessors; among free ones the earliest in the file first.
  const std::vector<int>& topological_order() const { return order_; }

  /// The same graph with `stages[i]` as the stage of layer i.
  base::Result<LayerGraph> with_stages(const std::vector<std::optional<int>>& stages) const;

  /// Where its times and sizes come from.
  Source source() const { return source_; }
  LayerGraph with_source(Source source) const;

  /// Samples of the minibatch; absent: it does not say.
  std::optional<int> lbs() const { return lbs_; }
  LayerGraph with_lbs(std::optional<int> lbs) const;

  /// Of the time of all layers together; absent: it does not say.
  const std::optional<Confidence>& confidence() const { return confidence_; }
  LayerGraph with_confidence(const std::optional<Confidence>& confidence) const;

  bool operator==(const LayerGraph& other) const {
    return layers_ == other.layers_ && edges_ == other.edges_ && source_ == other.source_ && lbs_ == other.lbs_ &&
           confidence_ == other.confidence_;
  }

 private:
  LayerGraph() = default;
  std::vector<Layer> layers_;
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> successors_;
  std::vector<std::vector<int>> predecessors_;
  std::vector<int> order_;
  Source source_ = Source::kMeasured;
  std::optional<int> lbs_;
  std::optional<Confidence> confidence_;
};

}  // namespace yoke::profile
