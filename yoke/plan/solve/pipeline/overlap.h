// The partition of a layer graph into pipeline stages on unlike devices, under our own cost model.
//
// A stage lies between two states of cut_states.h and runs on q devices of one group that take minibatches in turn, so
// the busiest takes a share(q) of them: 1/q in a stream that never ends (kStash), ceil(m/q)/m of the m =
// `micro_batches` of a step otherwise. Then q may not exceed m: more replicas would have nothing to do.
//
// The communication of a stage overlaps its computation, so its seconds per minibatch are the largest of
//    compute     alone share(q), where alone = seconds / speed; and, where the profile knows it, the update over the
//                minibatches that share one: q with kStash, m otherwise
//    all-reduce  2 (q-1)/q parameters / bandwidth, over the minibatches that share one: q with kStash, where every
//                replica gives its gradient after each of its minibatches, m otherwise
//    transfers   2 (bytes in / bandwidth in + bytes out / bandwidth out) share(q): activations one way, gradients back.
// The bandwidth is the one inside a node when all devices concerned (of the stage, or of the two stages) share a node,
// otherwise the one between nodes, and between groups the slower of the two.
//
// What is minimised (PipelineAim): the pace, which is the seconds per minibatch of the slowest stage, as if the
// pipeline were always full; or the seconds of a whole step with filling and draining,
//    step = first + extra
//    first = the sum over the stages of alone + 2 bytes in / bandwidth in: the first minibatch meets no other
//    extra = the largest over the stages of m seconds - max(alone, 2 (bytes in / bandwidth in + bytes out / bandwidth
//            out)): the rounds after the first of the stage that has the longest of them.
// With kStash the pipeline never drains: only the pace has a meaning, and a step is m times that.
//
// Memory of a device: parameters x (versions + 1 + optimizer_copies) + (outputs of the stage's layers + bytes in) x
// minibatches in flight; the 1 is the gradient. With d devices in this and the later stages
//    kGpipe   in flight = ceil(m / q)                       versions = 1
//    kFlush   in flight = min(ceil(d / q), ceil(m / q))     versions = 1
//    kStash   in flight = ceil(d / q)                       versions = in flight
// A stage that exceeds the memory of its group is not allowed. Not in it: what the framework itself and the layers'
// scratch space take.
//
// Devices of a group are numbered node by node; the stages on a group take them in order, the last stage the last ones.
// Idle devices are the first ones. Within this, the solver chooses where to cut, the order of the groups, which may
// come back, and the replicas: it is exact over all of these (a dynamic program over states and devices used per
// group), unless it says `proven` = false: then its effort, which is counted and not timed, was used up, and a better
// plan may exist.
//
// Deterministic. Ties: fewest devices, then, group by group, fewest of the group; then stage by stage from the first:
// the shortest compute, the group listed first, the fewest replicas, the first group listed for the next stage. Among
// equal steps: the plan of the best pace, then the one whose first minibatch is through first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/plan/solve/pipeline/cut_states.h"
#include "yoke/profile/layer_graph.h"

namespace yoke::plan {

enum class PipelineSchedule {
  kGpipe,  // all micro-batches forward, then all backward
  kFlush,  // one forward, one backward; weights change between steps only
  kStash,  // one forward, one backward, never flushed; weights are kept for each minibatch in flight
};

enum class PipelineAim {
  kPace,  // the slowest stage, as if the pipeline were always full
  kStep,  // a step of `micro_batches`, filling and draining counted; the pace with kStash
};

/// Equal devices on equal nodes.
struct DeviceGroup {
  std::string type;
  int nodes = 1;
  int devices_per_node = 1;
  double speed = 1;                    // relative to the device of the profile
  std::optional<double> memory_bytes;  // of one device
  double intra_bytes_per_s = 0;        // between devices of a node
  double inter_bytes_per_s = 0;        // between nodes; to another group the slower of the two counts

  int devices() const { return nodes * devices_per_node; }
};

struct OverlapOptions {
  std::vector<DeviceGroup> groups;
  PipelineSchedule schedule = PipelineSchedule::kFlush;
  PipelineAim aim = PipelineAim::kPace;
  int micro_batches = 8;     // minibatches between two updates; of no effect on the plan with kStash
  int optimizer_copies = 1;  // numbers the optimizer keeps per weight: 0 plain SGD, 1 momentum, 2 Adam
  bool may_idle = false;     // devices may stay unused where that is faster
  int most_replicas = 0;     // of a stage; 0: any
  int state_limit = 0;       // most states before the graph is reduced; 0: what the groups allow
};

struct OverlapResult {
  struct Stage {
    std::vector<int> layers;  // indices, ascending; inputs are with the first stage
    int group = 0;
    int first_device = 0;  // in the group; `replicas` devices from here
    int replicas = 1;
    double seconds = 0;        // per minibatch: the largest of the next three
    double alone_seconds = 0;  // compute of one minibatch on one device
    double compute_seconds = 0;
    double all_reduce_seconds = 0;
    double transfer_seconds = 0;
    int in_flight = 1;
    double memory_bytes = 0;
  };

  double seconds_per_minibatch = 0;  // the pace: of the slowest stage
  double step_seconds = 0;           // of `micro_batches`
  bool proven = true;                // false: the search was cut short, a better plan may exist
  /// The whole model on every device, each taking as many minibatches: per minibatch, and whether it fits the memory.
  double data_parallel_seconds = 0;
  bool data_parallel_fits = true;
  double single_seconds = 0;  // on the fastest device
  int states = 0;
  std::vector<Stage> stages;
  std::vector<int> stage_of;      // of every layer
  std::vector<int> idle_devices;  // by group
  Reduction reduction;
};

/// Input error for options out of range or a graph that cannot be cut; infeasible error, naming the limit that binds,
/// when no plan keeps to them.
base::Result<OverlapResult> solve_overlap(const profile::LayerGraph& graph, const OverlapOptions& options);

}  // namespace yoke::plan
