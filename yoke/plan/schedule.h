// A plan as lists of operations, one for each device: what it does, in which order, with which weights. One schedule,
// two executors: the simulator prices these lists and the engine runs them; neither adds, drops or reorders anything.
//
// How a list is executed. A device has a compute stream and a reducer stream; each takes its ops in the order of the
// list, and the two run beside each other:
// - compute stream: kLoad, kForward, kRecompute, kBackward, kSend, kReceive, kStash, kDrop. A send starts when it is
//   reached and travels beside what follows. A receive ends when its message is there.
// - reducer stream: kReduce, kNorm, kUpdate. A reduce starts when the last backward before it in the list has filled
// its
//   bucket: with Sync::kOverlap that may be before this pass is over, with Sync::kSequential it is after it. An update
//   comes after the reduce of its bucket.
// - a forward, recompute, backward or stash waits for the weights of its `version` (an update makes one); a pass also
//   for its worker's tensors, and a backward for the updates before it in the list: until then they need the gradients
//   that it would add to.
//
// The lists of a pipeline stage read, for each worker,
//    kLoad (first stage) or kReceive activations, kForward, kSend activations (not the last stage)
//    kReceive gradients (not the last stage), kRecompute (if asked), kBackward, kSend gradients (not the first stage)
// and those of a data lane, for each round, kLoad kForward kBackward of its `count` workers. After the last backward
// pass of a device that goes into an update come the reduces and updates of all its segments, the last segment first,
// also where the device had no worker this time or holds the segment alone (the sum over one holder is free):
//    overlap            kReduce kUpdate of one bucket after another
//    sequential         kReduce of all buckets, then kUpdate of all
//    clipping by norm   kReduce of all buckets, kNorm, then kUpdate of all
//
// Versions. An update k (from 0) makes version k + 1.
//    kData, kGpipe, kFlush   step t of the span uses version t
//    kStash   update k of a stage with R replicas is the mean over the workers kR .. kR + R - 1 of the span. A forward
//             uses the newest version there is when its turn comes: worker iR + r the version max(0, i - warm-up)
//    kStash with vertical sync   the version is chosen when the worker enters stage 0. There it is v, which holds the
//             gradients of the first v R_0 workers; at stage s the worker uses the newest version that holds no others:
//             floor(v R_0 / R_s). With equal replicas that is v everywhere
//    kTwoBw   step t uses version max(0, t - 1), and its update makes t + 1
// A version that passes need after the update that replaces it is stashed: kStash stands before the last backward pass
// that goes into that update (an update may begin while this pass runs), kDrop after the last pass that needs it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/cluster/cluster.h"
#include "yoke/plan/plan.h"

namespace yoke::plan {

enum class ScheduleKind {
  kData,   // the whole model on one device: `vsw` workers at once, round after round
  kGpipe,  // all forward passes, then all backward passes
  kFlush,  // `1f1b-flush`: one forward, one backward, drained in every step; same math as kData
  kStash,  // `1f1b-stash`: PipeDream. Never drained; each stage updates after every round of its replicas, and each
           // worker's backward uses the weights of its forward
  kTwoBw,  // `2bw`: never drained; every step's passes use the weights of one step before (PipeDream-2BW)
};
/// `data`, `gpipe`, `1f1b-flush`, `1f1b-stash`, `2bw`, as plans and the command line write it.
std::string_view to_string(ScheduleKind kind);
/// Input error that names the nearest.
base::Result<ScheduleKind> parse_schedule_kind(std::string_view text, const base::Where& where = {});
/// Whether it computes the update that data lanes would.
bool keeps_the_math(ScheduleKind kind);

enum class ScheduleOpKind : std::uint8_t {
  kLoad,  // the samples of its workers, from the data set
  kForward,
  kRecompute,  // the forward pass again, from the kept input, for the backward pass that follows
  kBackward,
  kSend,
  kReceive,
  kReduce,  // sums a bucket of a segment over the segment's holders
  kNorm,    // the norm of all gradients, over all devices: for clipping
  kUpdate,  // of one bucket; `version` is what it makes
  kStash,   // `version` is kept although an update follows: later passes need it
  kDrop,    // the last pass that needs the stashed `version` is over
};

enum class Payload : std::uint8_t { kActivations, kGradients };

struct ScheduleOp {
  ScheduleOpKind kind = ScheduleOpKind::kForward;
  Payload payload = Payload::kActivations;  // of a message
  int worker = -1;                          // passes and messages: its number in the span, from 0
  int count = 1;                            // data lanes: workers `worker` .. `worker` + count - 1 at once
  int peer = -1;                            // messages: the other side, an index into Schedule::programs
  int segment = -1;                         // reduce, update: an index into Schedule::segments
  int bucket = -1;                          // reduce, update: within the segment, in backward order
  /// Of the weights: passes use it; an update makes it, and a reduce and a norm are for that update. 0: those before
  /// the first update.
  int version = 0;

  bool operator==(const ScheduleOp&) const = default;
};

/// What one device does.
struct DeviceProgram {
  cluster::DeviceId device;
  ScheduleKind kind = ScheduleKind::kData;
  int lane = 0;  // data lanes first, then pipeline lanes, each in the plan's order
  int stage = 0;
  int stages = 1;
  int replica = 0;  // in its stage
  int replicas = 1;
  bool recompute = false;      // of its lane
  bool vertical_sync = false;  // of its lane
  std::vector<int> segments;   // that it holds, in forward order
  std::vector<ScheduleOp> ops;

  bool first_stage() const { return stage == 0; }
  bool last_stage() const { return stage + 1 == stages; }
  bool operator==(const DeviceProgram&) const = default;
};

/// Layers that the same devices hold, so that their gradients are reduced together. Lanes that are cut at different
/// places give segments smaller than a stage.
struct Segment {
  std::vector<std::string> layers;  // empty: the whole model (a plan of data lanes names no layers)
  std::vector<int> holders;         // indices into Schedule::programs, ascending
  int buckets = 1;
  bool operator==(const Segment&) const = default;
};

struct Schedule {
  int workers = 0;       // of the span
  int step_workers = 0;  // of each step but perhaps the last: worker w of the span is of step w / step_workers
  int steps = 1;
  Sync sync = Sync::kOverlap;
  bool clip_norm = false;
  bool forward_only = false;
  std::vector<Segment> segments;  // in forward order
  std::vector<DeviceProgram> programs;
  bool operator==(const Schedule&) const = default;
};

struct ScheduleRequest {
  /// Steps of the plan that the lists span. Schedules that keep the math are drained after each, so that one step says
  /// all; the others are filled once and drained at the end of the span.
  int steps = 1;
  /// Workers of the span's last step; at the end of an epoch there may be fewer than the plan has. 0: all.
  int last_step_workers = 0;
  /// Into how many buckets each segment's gradients are cut, by segment; 0 where it has no parameters. Empty: one each.
  std::vector<int> buckets;
  bool clip_norm = false;     // updates wait for the norm of all gradients
  bool forward_only = false;  // evaluation: passes forward, all with version 0, and nothing else
};

/// The segments alone: what must be known before the buckets can be counted. Input error when pipeline lanes do not
/// hold the same layers.
base::Result<std::vector<Segment>> segments_of(const Plan& plan);

/// Workers of a step are dealt to lanes in the plan's order (data lanes first), and within a pipeline stage to its
/// replicas in turn, by their number; where the last step has fewer, those with the highest numbers are absent. Input
/// error, with the field of the plan, for an unknown schedule, for schedules with other math beside other lanes, for a
/// warm-up (PipelineStage::warmup) under which the pipeline would stand still, for `2bw` with fewer workers a step than
/// are in flight, for clipping by norm with `1f1b-stash` (its stages do not update together), and for a request out of
/// range.
base::Result<Schedule> make_schedule(const Plan& plan, const ScheduleRequest& request = {});

/// Workers that stage `stage` lets in before its first backward pass, in one replica: PipeDream's rule,
/// floor((devices of this and later stages - 1) / replicas), unless the stage says otherwise.
int warmup_of(const PipelineLane& lane, int stage);

/// What to multiply the learning rate of a stage with. With `1f1b-stash` PipeDream's rule, replicas over those of stage
/// 0: a stage of more replicas takes the mean of more workers and updates less often. 1 with the others.
double rate_factor_of(const PipelineLane& lane, int stage);

/// What is true of a schedule, device by device.
struct ProgramFacts {
  int peak_in_flight = 0;  // workers whose forward is done and whose backward is not
  int peak_versions = 1;   // weight versions held at once, the newest included
  int lag = 0;             // most updates of its own stage between a worker's forward and the update it goes into
};

/// Proves that the lists can be executed by the rules above and that they compute what their kind promises: no
/// deadlock, each send with its receive and the other way round, every worker passed once forward and once backward
/// through every stage, every bucket reduced by all its holders in one order, and versions: forward and backward of a
/// worker alike; with vertical sync alike across stages; `2bw` one step behind, exactly. A breach is an internal error
/// that names device and op.
base::Result<std::vector<ProgramFacts>> check(const Schedule& schedule);

/// `forward of worker 3 with version 2`, for messages and traces.
std::string describe(const ScheduleOp& op, const Schedule& schedule);

}  // namespace yoke::plan
