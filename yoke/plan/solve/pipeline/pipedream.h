// PipeDream's hierarchical partition optimizer: the same objective and, with its candidates taken in a fixed order, the
// same plan to the last digit.
//
// Levels are nested machines, innermost first: {4 machines at 15 GB/s} inside {4 machines at 1.25 GB/s} is 16 devices.
// On every level the states of cut_states.h are divided into stages on one or more of the level's machines so that the
// slowest stage is as fast as possible; pipedream_level.h has the formulas. Where the original would crash, this one
// answers: with `fewer` and a memory limit an undefined cell simply offers nothing, and a graph with one state is one
// stage. Stages given in the profile are ignored. Where the graph has more cuts than can be tried in a few seconds and
// half a gigabyte it is reduced (CutStates::reduction).
//
// Deterministic. Ties: one stage before a split, then fewer machines, then the earliest split, then the fewest
// replicas.
#pragma once

#include <optional>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/plan/solve/pipeline/cut_states.h"
#include "yoke/profile/layer_graph.h"

namespace yoke::plan {

struct PipedreamOptions {
  struct Level {
    int machines = 1;
    double bytes_per_s = 0;
  };
  std::vector<Level> levels;           // innermost first
  std::optional<double> memory_bytes;  // of one device
  std::optional<double> compression;   // of activations in transit; absent: transfers are not counted at all
  bool straight = false;               // one machine per stage on every level
  bool fewer = false;                  // machines may stay unused where that is faster
  int state_limit = 0;                 // most states before the graph is reduced; 0: what the levels allow
  int threads = 0;                     // 0: one per core
};

struct PipedreamResult {
  /// States [first, end) on `replicas` machines of the level.
  struct Split {
    int first = 0;
    int end = 0;
    int replicas = 1;
    double seconds = 0;  // compute of one minibatch on one device
    bool operator==(const Split&) const = default;
  };
  /// The splits of one machine of the level above.
  struct Group {
    int first = 0;
    int end = 0;
    double seconds = 0;  // per minibatch, all costs of the level included
    int machines_not_used = 0;
    std::vector<Split> splits;
  };
  struct Stage {
    std::vector<int> layers;  // indices, ascending; inputs are with the first stage
    int replicas = 1;         // devices: the product over the levels
    double seconds = 0;       // compute of one minibatch on one device
  };

  double seconds_per_minibatch = 0;
  double data_parallel_seconds = 0;
  double single_seconds = 0;
  int states = 0;
  std::vector<Stage> stages;
  std::vector<int> stage_of;               // of every layer
  std::vector<std::vector<Group>> levels;  // innermost first, as in the options
  Reduction reduction;
};

/// Input error for options out of range or a graph that cannot be cut; infeasible error, naming the limit that binds,
/// when no plan keeps to them.
base::Result<PipedreamResult> solve_pipedream(const profile::LayerGraph& graph, const PipedreamOptions& options);

}  // namespace yoke::plan
