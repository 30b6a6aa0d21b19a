#include "yoke/plan/solve/pipeline/cut_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "yoke/base/text.h"

namespace yoke::plan {
namespace {

using base::Result;
using base::Status;
using profile::Layer;
using profile::LayerGraph;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

/// The graph without inputs and trailing `__getitem__`, with what the moves ask for again and again.
struct Prepared {
  explicit Prepared(const LayerGraph& graph);

  const LayerGraph& graph;
  std::vector<bool> kept;
  std::vector<std::vector<int>> successors;  // kept ones only, in edge order
  std::vector<int> order;                    // topological, kept ones only
  BitRows successor_bits;
  BitRows ancestors;
  /// Row x: ancestors of x with a consumer that is neither x nor an ancestor of x.
  BitRows feeding_others;
  int first_source = -1;  // -1: nothing is left
};

Prepared::Prepared(const LayerGraph& input)
    : graph(input),
      kept(at(input.size()), true),
      successors(at(input.size())),
      successor_bits(input.size(), input.size()),
      ancestors(input.size(), input.size()),
      feeding_others(input.size(), input.size()) {
  const auto starts_with = [&](int layer, std::string_view word) {
    return graph.layers()[at(layer)].description.starts_with(word);
  };
  for (int layer = 0; layer < graph.size(); ++layer) {
    if (graph.predecessors(layer).empty() && starts_with(layer, "Input")) kept[at(layer)] = false;
  }
  for (int layer = 0; layer < graph.size(); ++layer) {
    if (graph.successors(layer).empty() && starts_with(layer, "__getitem__")) kept[at(layer)] = false;
  }
  for (const int layer : graph.topological_order()) {
    if (!kept[at(layer)]) continue;
    order.push_back(layer);
    for (const int after : graph.successors(layer)) {
      if (!kept[at(after)]) continue;
      successors[at(layer)].push_back(after);
      set(successor_bits.row(layer), after);
    }
    bool source = true;
    for (const int before : graph.predecessors(layer)) {
      if (!kept[at(before)]) continue;
      source = false;
      set(ancestors.row(layer), before);
      unite(ancestors.row(layer), ancestors.row(before));
    }
    if (source && (first_source < 0 || layer < first_source)) first_source = layer;
  }
  for (const int layer : order) {
    for_each_bit(ancestors.row(layer), [&](int before) {
      const auto& consumers = successors[at(before)];
      const auto outside = [&](int after) { return after != layer && !test(ancestors.row(layer), after); };
      if (std::any_of(consumers.begin(), consumers.end(), outside)) set(feeding_others.row(layer), before);
    });
  }
}

/// The restrictions of a reduced space in the form the moves need.
struct Restriction {
  Reduction reduction;
  std::vector<int> tail;    // of each layer: the last layer of the group it is kept together with
  std::vector<int> window;  // of each layer; empty: no windows
  BitRows up_to;            // row w: the layers of windows 0..w
};

Restriction unrestricted(const Prepared& prepared) {
  Restriction result;
  result.tail.resize(at(prepared.graph.size()));
  std::iota(result.tail.begin(), result.tail.end(), 0);
  return result;
}

/// Keeps layers of a branch together, up to `length` of them. A layer that is ordered with respect to all others is on
/// no branch: it does not multiply the states.
Restriction branches(const Prepared& prepared, int length) {
  Restriction result = unrestricted(prepared);
  result.reduction.kind = Reduction::Kind::kBranches;
  const auto layers = prepared.order.size();
  std::vector<std::size_t> ordered(at(prepared.graph.size()), 1);  // layers before or after each, and itself
  std::vector<int> predecessors(at(prepared.graph.size()), 0);
  for (const int layer : prepared.order) {
    for_each_bit(prepared.ancestors.row(layer), [&](int before) { ++ordered[at(before)], ++ordered[at(layer)]; });
    for_each_bit(prepared.successor_bits.row(layer), [&](int after) { ++predecessors[at(after)]; });
  }
  std::vector<bool> grouped(at(prepared.graph.size()), false);
  for (const int head : prepared.order) {
    if (grouped[at(head)] || ordered[at(head)] == layers) continue;
    std::vector<int> group{head};
    while (static_cast<int>(group.size()) < length) {
      const auto& after = prepared.successors[at(group.back())];
      const bool single = !after.empty() && std::ranges::all_of(after, [&](int next) { return next == after.front(); });
      if (!single || predecessors[at(after.front())] != 1) break;
      group.push_back(after.front());
    }
    for (const int layer : group) {
      grouped[at(layer)] = true;
      result.tail[at(layer)] = group.back();
    }
    if (group.size() > 1) result.reduction.groups.push_back(std::move(group));
  }
  return result;
}

/// Divides the layers into windows of `length`, where layers that `kept_together` keeps together count as one;
/// `whole`: each window is kept together.
Restriction windows(const Prepared& prepared, const Restriction& kept_together, int length, bool whole) {
  Restriction result;
  result.tail = kept_together.tail;
  result.reduction.kind = whole ? Reduction::Kind::kBlocks : Reduction::Kind::kWindows;
  result.window.resize(at(prepared.graph.size()), -1);
  int units = 0;
  for (const int layer : prepared.order) {
    // The first layer of a unit decides, so that windows are in topological order too.
    int& window = result.window[at(result.tail[at(layer)])];
    if (window < 0) window = units++ / length;
    result.window[at(layer)] = window;
  }
  const int count = (units + length - 1) / length;
  result.reduction.groups.resize(at(count));
  result.up_to = BitRows(count, prepared.graph.size());
  for (const int layer : prepared.order) {
    result.reduction.groups[at(result.window[at(layer)])].push_back(layer);
    for (int w = result.window[at(layer)]; w < count; ++w) set(result.up_to.row(w), layer);
  }
  return result;
}

/// Breadth-first enumeration of the states.
class Enumeration {
 public:
  Enumeration(const Prepared& prepared, const Restriction& restriction)
      : prepared_(prepared), restriction_(restriction), known_(16, Hash{&states_}, Equal{&states_}) {
    states_ = BitRows(0, prepared.graph.size());
  }

  /// False when there are more than `limit` states.
  bool run(int limit);
  /// The states in reverse post-order with all their sums.
  CutStates finish() const;

 private:
  struct Hash {
    const BitRows* states;
    std::size_t operator()(int state) const {
      BitWord hash = 0;
      for (const BitWord word : states->row(state)) hash = (hash ^ word) * 0x9E3779B97F4A7C15U ^ (hash >> 29U);
      return hash;
    }
  };
  struct Equal {
    const BitRows* states;
    bool operator()(int a, int b) const { return std::ranges::equal(states->row(a), states->row(b)); }
  };

  std::vector<int> augmented(int state) const;
  std::vector<int> antichain(int state, const std::vector<int>& list) const;
  /// Adds to `state` the layer `added` with everything that has to come before it.
  void close(Bits state, int added) const;
  int open_window(int state, const std::vector<int>& list) const;
  std::vector<int> reverse_post_order() const;

  const Prepared& prepared_;
  const Restriction& restriction_;
  BitRows states_;
  std::vector<std::vector<int>> antichains_;
  std::vector<std::vector<int>> moves_;  // states reached from each state, in order
  std::unordered_set<int, Hash, Equal> known_;
};

/// Layers that feed others outside in file order, then the antichain: the order in which PipeDream tries its moves.
std::vector<int> Enumeration::augmented(int state) const {
  BitRows feeding(1, prepared_.graph.size());
  for (const int layer : antichains_[at(state)]) unite(feeding.row(0), prepared_.feeding_others.row(layer));
  std::vector<int> list;
  for_each_bit(feeding.row(0), [&](int layer) { list.push_back(layer); });
  list.insert(list.end(), antichains_[at(state)].begin(), antichains_[at(state)].end());
  return list;
}

/// The maximal layers of a state: those in `list` in its order, then those that only a window brought in.
std::vector<int> Enumeration::antichain(int state, const std::vector<int>& list) const {
  std::vector<int> result;
  const ConstBits inside = states_.row(state);
  const auto add_if_maximal = [&](int layer) {
    if (intersects(prepared_.successor_bits.row(layer), inside)) return;
    if (std::find(result.begin(), result.end(), layer) == result.end()) result.push_back(layer);
  };
  for (const int layer : list) add_if_maximal(layer);
  if (!restriction_.window.empty()) for_each_bit(inside, add_if_maximal);
  return result;
}

void Enumeration::close(Bits state, int added) const {
  set(state, added);
  unite(state, prepared_.ancestors.row(added));
  if (restriction_.window.empty()) return;
  const int window = restriction_.window[at(added)];
  if (restriction_.reduction.kind == Reduction::Kind::kBlocks) unite(state, restriction_.up_to.row(window));
  if (window > 0) unite(state, restriction_.up_to.row(window - 1));
}

/// The earliest window that a move may add to; of no meaning without windows.
int Enumeration::open_window(int state, const std::vector<int>& list) const {
  if (restriction_.window.empty()) return 0;
  int window = restriction_.up_to.rows();
  for (const int from : list) {
    for (const int to : prepared_.successors[at(from)]) {
      if (!test(states_.row(state), to)) window = std::min(window, restriction_.window[at(to)]);
    }
  }
  return window;
}

bool Enumeration::run(int limit) {
  BitRows scratch(1, prepared_.graph.size());
  const int first = restriction_.tail[at(prepared_.first_source)];
  close(scratch.row(0), first);
  states_.append(scratch.row(0));
  known_.insert(0);
  antichains_.push_back(antichain(0, {first}));
  for (int state = 0; state < states_.rows(); ++state) {
    const std::vector<int> list = augmented(state);
    const int window = open_window(state, list);
    std::vector<int>& moves = moves_.emplace_back();
    for (std::size_t place = 0; place < list.size(); ++place) {
      for (const int next : prepared_.successors[at(list[place])]) {
        if (test(states_.row(state), next)) continue;
        if (!restriction_.window.empty() && restriction_.window[at(next)] != window) continue;
        const int to = restriction_.tail[at(next)];
        std::ranges::copy(states_.row(state), scratch.row(0).begin());
        close(scratch.row(0), to);
        const int candidate = states_.rows();
        states_.append(scratch.row(0));
        const auto [known, added] = known_.insert(candidate);
        moves.push_back(*known);
        if (!added) {
          states_.remove_last();
          continue;
        }
        if (states_.rows() > limit) return false;
        std::vector<int> replaced = list;
        replaced[place] = to;
        antichains_.push_back(antichain(candidate, replaced));
      }
    }
  }
  return true;
}

std::vector<int> Enumeration::reverse_post_order() const {
  std::vector<int> finished;
  std::vector<bool> seen(moves_.size(), false);
  std::vector<std::pair<int, std::size_t>> stack{{0, 0}};  // state, next move to follow
  seen[0] = true;
  while (!stack.empty()) {
    auto& [state, next] = stack.back();
    if (next == moves_[at(state)].size()) {
      finished.push_back(state);
      stack.pop_back();
      continue;
    }
    const int to = moves_[at(state)][next++];
    if (!seen[at(to)]) {
      seen[at(to)] = true;
      stack.emplace_back(to, 0);
    }
  }
  std::ranges::reverse(finished);
  return finished;
}

CutStates Enumeration::finish() const {
  const std::vector<int> order = reverse_post_order();
  const auto& layers = prepared_.graph.layers();
  CutStates result;
  result.count = static_cast<int>(order.size());
  result.layers = BitRows(0, prepared_.graph.size());
  result.successors = BitRows(result.count, result.count);
  std::vector<int> place(order.size());
  for (int j = 0; j < result.count; ++j) place[at(order[at(j)])] = j;
  for (int j = 0; j < result.count; ++j) {
    const int state = order[at(j)];
    const ConstBits inside = states_.row(state);
    result.layers.append(inside);
    double seconds = 0;
    double update_seconds = 0;
    double activation_bytes = 0;
    double parameter_bytes = 0;
    double crossing_bytes = 0;
    for_each_bit(inside, [&](int layer) {
      const Layer& costs = layers[at(layer)];
      seconds += (costs.forward_ms + costs.backward_ms) / 1000.0;
      update_seconds += costs.update_ms / 1000.0;
      activation_bytes += costs.activation_bytes();
      parameter_bytes += costs.parameter_bytes;
      const auto& consumers = prepared_.successors[at(layer)];
      if (std::ranges::any_of(consumers, [&](int after) { return !test(inside, after); })) {
        crossing_bytes += costs.activation_bytes();
      }
    });
    double augmented_bytes = 0;
    for (const int layer : augmented(state)) augmented_bytes += layers[at(layer)].activation_bytes();
    result.seconds.push_back(seconds);
    result.update_seconds.push_back(update_seconds);
    result.activation_bytes.push_back(activation_bytes);
    result.parameter_bytes.push_back(parameter_bytes);
    result.crossing_bytes.push_back(crossing_bytes);
    result.augmented_bytes.push_back(augmented_bytes);
  }
  for (int j = result.count; j-- > 0;) {
    for (const int to : moves_[at(order[at(j)])]) {
      set(result.successors.row(j), place[at(to)]);
      unite(result.successors.row(j), result.successors.row(place[at(to)]));
    }
  }
  return result;
}

bool keeps_to(int limit, const Prepared& prepared, const Restriction& restriction) {
  return Enumeration(prepared, restriction).run(limit);
}

/// The mildest restriction that keeps to the limit. Lengths are tried in steps of a third or so: doubling would give
/// away up to half of the cuts that fit.
Restriction restrict_to(int limit, const Prepared& prepared) {
  const auto layers = static_cast<int>(prepared.order.size());
  if (keeps_to(limit, prepared, unrestricted(prepared))) return unrestricted(prepared);
  if (keeps_to(limit, prepared, branches(prepared, layers))) {
    for (int length = 2; length < layers; length += (length + 2) / 3) {
      if (keeps_to(limit, prepared, branches(prepared, length))) return branches(prepared, length);
    }
    return branches(prepared, layers);
  }
  constexpr int kUnit = 3;  // a convolution with its normalisation and activation: no good place for a cut
  const Restriction units = branches(prepared, kUnit);
  int length = 0;
  for (int longer = 1; longer < layers && keeps_to(limit, prepared, windows(prepared, units, longer, false));) {
    length = longer;
    longer += (longer + 2) / 3;
  }
  if (length > 0) return windows(prepared, units, length, false);
  return windows(prepared, unrestricted(prepared), (layers + limit - 1) / limit, true);
}

CutStates enumerate(const Prepared& prepared, int limit) {
  const Restriction restriction = restrict_to(limit, prepared);
  Enumeration enumeration(prepared, restriction);
  base::require(enumeration.run(limit), "one state per window exceeds the limit of states");
  CutStates states = enumeration.finish();
  states.reduction = restriction.reduction;
  return states;
}

Status check(const Prepared& prepared, const CutStates& states) {
  const auto name = [&](int layer) { return base::quote(prepared.graph.layers()[at(layer)].id); };
  const auto last = states.layers.row(states.count - 1);
  for (const int layer : prepared.order) {
    if (test(last, layer)) continue;
    return base::input_error(
        fmt::format("the graph is not connected: no path of edges joins {} and {}; expected one connected graph, so "
                    "partition the parts one by one or join them with an edge",
                    name(prepared.first_source), name(layer)));
  }
  const auto end = at(states.count - 1);
  for (const double total :
       {states.seconds[end] + states.update_seconds[end], states.activation_bytes[end] + states.parameter_bytes[end]}) {
    if (!std::isfinite(total)) return base::input_error("the times or sizes of the layers add up beyond any number");
  }
  return {};
}

}  // namespace

std::string Reduction::describe() const {
  std::size_t longest = 0;
  for (const auto& group : groups) longest = std::max(longest, group.size());
  switch (kind) {
    case Kind::kBranches:
      return fmt::format("the branches allow too many cuts: {} groups of up to {} successive layers stay together",
                         groups.size(), longest);
    case Kind::kWindows:
      return fmt::format(
          "the branches allow too many cuts: of {} groups of up to {} layers each is finished before the next is begun",
          groups.size(), longest);
    case Kind::kBlocks:
      return fmt::format("there are too many layers: {} groups of up to {} stay together", groups.size(), longest);
    case Kind::kNone:
      break;
  }
  return "";
}

Result<CutStates> enumerate_cut_states(const LayerGraph& graph, int limit) {
  base::require(limit >= 1, fmt::format("limit of states {}, expected at least 1", limit));
  const Prepared prepared(graph);
  if (prepared.first_source < 0) {
    return base::input_error(fmt::format(
        "found {} layers, all of them inputs or trailing __getitem__; expected a layer that computes", graph.size()));
  }
  CutStates states = enumerate(prepared, limit);
  YOKE_CHECK(check(prepared, states));
  return states;
}

std::vector<int> stage_of_layers(const LayerGraph& graph, const CutStates& states, const std::vector<int>& ends) {
  constexpr int kUnset = -1;
  std::vector<int> stage(at(graph.size()), kUnset);
  for (std::size_t s = 0; s < ends.size(); ++s) {
    for_each_bit(states.layers.row(ends[s]), [&](int layer) {
      if (stage[at(layer)] == kUnset) stage[at(layer)] = static_cast<int>(s);
    });
  }
  for (const int layer : graph.topological_order()) {
    if (stage[at(layer)] != kUnset) continue;
    stage[at(layer)] = 0;
    for (const int before : graph.predecessors(layer)) stage[at(layer)] = std::max(stage[at(layer)], stage[at(before)]);
  }
  return stage;
}

}  // namespace yoke::plan
