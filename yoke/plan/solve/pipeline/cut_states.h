// The places where a layer graph may be cut into pipeline stages.
//
// A state is a set of layers closed under "comes before": everything executed up to a cut. A stage is what lies between
// two states, one inside the other. The states and their order are those of PipeDream's optimizer:
//  - layers whose description starts with `Input` and that nothing feeds are set aside, then sinks that start with
//    `__getitem__`; neither costs anything. The rest must be connected;
//  - the first state holds the first source (in file order); a move adds a layer that has a predecessor in the state,
//    together with all its ancestors;
//  - states are numbered by reverse post-order of a depth-first search along the moves, so a state comes after every
//    state it can be reached from.
//
// Parallel branches multiply the number of states. Above `limit` the graph is reduced, by the mildest of these that is
// enough:
//  - branches: layers that follow one another on a branch are kept together, in twos, threes and so on up to the whole
//    branch (what PipeDream's users had to do with a script beforehand);
//  - windows: the layers in topological order, those of a branch in threes, are divided into windows of equal length,
//    and a window is finished before the next is begun; the longest windows that respect the limit are taken;
//  - blocks: when even the shortest windows are too many, windows that are kept together.
// A reduced space holds a part of the original states with the original costs: a plan made from it is right, and the
// best among the cuts that are left.
#pragma once

#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/plan/solve/pipeline/bit_rows.h"
#include "yoke/profile/layer_graph.h"

namespace yoke::plan {

/// How the states were thinned out.
struct Reduction {
  enum class Kind { kNone, kBranches, kWindows, kBlocks };

  Kind kind = Kind::kNone;
  /// Layers (indices into the graph) in execution order. kBranches and kBlocks: each group is kept together. kWindows:
  /// each group is finished before the next is begun.
  std::vector<std::vector<int>> groups;

  bool empty() const { return kind == Kind::kNone; }
  /// One sentence for the user; "" when nothing was reduced.
  std::string describe() const;
};

struct CutStates {
  int count = 0;
  BitRows layers;      // row j: the layers inside state j
  BitRows successors;  // row j: the states that can be reached from j, j itself not included
  // Sums over the layers inside each state.
  std::vector<double> seconds;  // forward + backward
  std::vector<double> update_seconds;
  std::vector<double> activation_bytes;
  std::vector<double> parameter_bytes;
  /// Output of the layers in the state that a layer outside needs: what crosses the cut, once each.
  std::vector<double> crossing_bytes;
  /// PipeDream's estimate of the same, which counts some layers whose consumers are all inside.
  std::vector<double> augmented_bytes;
  Reduction reduction;

  // A segment is what lies after state `first - 1` (after nothing when first = 0) up to state `last`.
  double segment(const std::vector<double>& sums, int first, int last) const {
    const double total = sums[static_cast<std::size_t>(last)];
    return first == 0 ? total : total - sums[static_cast<std::size_t>(first - 1)];
  }
};

/// Input error when the graph has nothing but inputs, or is not connected (the message names a layer of each part), or
/// its sums are not finite. `limit` >= 1.
base::Result<CutStates> enumerate_cut_states(const profile::LayerGraph& graph, int limit);

/// The stage of every layer when stage s ends with state `ends[s]`: the first stage whose last state holds the layer.
/// Inputs are in stage 0, a `__getitem__` that was set aside is with its latest predecessor.
std::vector<int> stage_of_layers(const profile::LayerGraph& graph, const CutStates& states,
                                 const std::vector<int>& ends);

}  // namespace yoke::plan
