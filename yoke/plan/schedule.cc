#include "yoke/plan/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "yoke/base/text.h"
#include "yoke/plan/schedule_run.h"

namespace yoke::plan {
namespace {

using base::input_error;

const std::vector<std::string> kKindNames{"data", "gpipe", "1f1b-flush", "1f1b-stash", "2bw"};

std::string lane_field(std::size_t lane) {
  return fmt::format("pipeline_lanes[{}]", lane);
}

int replicas_of(const PipelineLane& lane, int stage) {
  return static_cast<int>(lane.stages[static_cast<std::size_t>(stage)].devices.size());
}

int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

/// The programs of all devices in order, without ops.
base::Result<std::vector<DeviceProgram>> programs_of(const Plan& plan) {
  std::vector<DeviceProgram> programs;
  int lane_number = 0;
  for (const auto& lane : plan.data_lanes) programs.push_back({.device = lane.device, .lane = lane_number++});
  for (std::size_t l = 0; l < plan.pipeline_lanes.size(); ++l) {
    const PipelineLane& lane = plan.pipeline_lanes[l];
    YOKE_TRY(const ScheduleKind kind, parse_schedule_kind(lane.schedule, {.field = lane_field(l) + ".schedule"}));
    if (kind == ScheduleKind::kData) {
      return input_error("found data, expected the schedule of a pipeline: gpipe, 1f1b-flush, 1f1b-stash or 2bw",
                         {.field = lane_field(l) + ".schedule"});
    }
    const int stages = static_cast<int>(lane.stages.size());
    for (int stage = 0; stage < stages; ++stage) {
      const int replicas = replicas_of(lane, stage);
      for (int replica = 0; replica < replicas; ++replica) {
        programs.push_back(
            {.device = lane.stages[static_cast<std::size_t>(stage)].devices[static_cast<std::size_t>(replica)],
             .kind = kind,
             .lane = lane_number,
             .stage = stage,
             .stages = stages,
             .replica = replica,
             .replicas = replicas,
             .recompute = lane.recompute,
             .vertical_sync = lane.vertical_sync});
      }
    }
    ++lane_number;
  }
  return programs;
}

/// The stage of every layer in every pipeline lane.
base::Result<std::map<std::string, std::vector<int>>> stages_of_layers(const Plan& plan) {
  std::map<std::string, std::vector<int>> stages;
  for (std::size_t l = 0; l < plan.pipeline_lanes.size(); ++l) {
    const PipelineLane& lane = plan.pipeline_lanes[l];
    std::size_t layers = 0;
    for (std::size_t s = 0; s < lane.stages.size(); ++s) {
      for (const auto& layer : lane.stages[s].layers) {
        auto& of = stages[layer];
        if (of.size() != l) {
          return input_error(fmt::format("the layer {} is not in the pipeline lane 0: all lanes must hold the whole "
                                         "model",
                                         base::quote(layer)),
                             {.field = fmt::format("{}.stages[{}].layers", lane_field(l), s)});
        }
        of.push_back(static_cast<int>(s));
        ++layers;
      }
    }
    if (layers == stages.size()) continue;
    const auto missing =
        std::find_if(stages.begin(), stages.end(), [&](const auto& each) { return each.second.size() == l; });
    return input_error(
        fmt::format("the layer {} of the pipeline lane 0 is missing: all lanes must hold the whole model",
                    base::quote(missing->first)),
        {.field = lane_field(l) + ".stages"});
  }
  return stages;
}

/// Segments with their holders; the programs are told which they hold.
base::Result<std::vector<Segment>> cut_segments(const Plan& plan, std::vector<DeviceProgram>& programs) {
  std::vector<Segment> segments;
  // By the stages that hold it in each pipeline lane.
  std::map<std::vector<int>, std::size_t> known;
  if (plan.pipeline_lanes.empty()) {
    segments.emplace_back();
    known.emplace(std::vector<int>{}, 0U);
  } else {
    YOKE_TRY(const auto stages, stages_of_layers(plan));
    for (const auto& stage : plan.pipeline_lanes.front().stages) {
      for (const auto& layer : stage.layers) {
        const auto [found, added] = known.try_emplace(stages.at(layer), segments.size());
        if (added) segments.emplace_back();
        segments[found->second].layers.push_back(layer);
      }
    }
  }
  const int data_lanes = static_cast<int>(plan.data_lanes.size());
  for (std::size_t p = 0; p < programs.size(); ++p) {
    DeviceProgram& program = programs[p];
    for (const auto& [stages, segment] : known) {
      const bool holds =
          program.lane < data_lanes || stages[static_cast<std::size_t>(program.lane - data_lanes)] == program.stage;
      if (!holds) continue;
      program.segments.push_back(static_cast<int>(segment));
      segments[segment].holders.push_back(static_cast<int>(p));
    }
    std::sort(program.segments.begin(), program.segments.end());
  }
  return segments;
}

base::Status check_request(const Plan& plan, const ScheduleRequest& request, std::size_t segments) {
  if (request.steps < 1)
    return input_error(fmt::format("found {}, expected at least 1", request.steps), {.field = "steps"});
  if (plan.workers() > std::numeric_limits<int>::max() / request.steps) {
    return input_error(
        fmt::format("found {} steps of {} workers: more than can be numbered", request.steps, plan.workers()),
        {.field = "steps"});
  }
  if (request.last_step_workers < 0 || request.last_step_workers > plan.workers()) {
    return input_error(fmt::format("found {}, expected 0 (all) to {}", request.last_step_workers, plan.workers()),
                       {.field = "last_step_workers"});
  }
  if (!request.buckets.empty() && request.buckets.size() != segments) {
    return input_error(
        fmt::format("found {} numbers, expected one for each of the {} segments", request.buckets.size(), segments),
        {.field = "buckets"});
  }
  for (const int buckets : request.buckets) {
    if (buckets < 0) return input_error(fmt::format("found {}, expected at least 0", buckets), {.field = "buckets"});
  }
  return {};
}

/// What a lane may ask for with its schedule.
base::Status check_lanes(const Plan& plan, const ScheduleRequest& request) {
  for (std::size_t l = 0; l < plan.pipeline_lanes.size(); ++l) {
    const PipelineLane& lane = plan.pipeline_lanes[l];
    const ScheduleKind kind = *parse_schedule_kind(lane.schedule);
    const std::string field = lane_field(l);
    if (!keeps_the_math(kind) && plan.data_lanes.size() + plan.pipeline_lanes.size() > 1) {
      return input_error(fmt::format("found {} beside other lanes, but its stages do not update together with them; "
                                     "expected gpipe or 1f1b-flush",
                                     lane.schedule),
                         {.field = field + ".schedule"});
    }
    if (kind == ScheduleKind::kStash && request.clip_norm) {
      return input_error(
          "clipping by norm needs stages that update together, which those of 1f1b-stash do not; "
          "expected gpipe, 1f1b-flush or 2bw",
          {.field = field + ".schedule"});
    }
    for (std::size_t s = 0; s < lane.stages.size(); ++s) {
      if (kind == ScheduleKind::kGpipe && lane.stages[s].warmup) {
        return input_error(
            "found a warm-up, but gpipe lets all workers in before the first backward pass; expected "
            "none, or 1f1b-flush",
            {.field = fmt::format("{}.stages[{}].warmup", field, s)});
      }
      const int stage = static_cast<int>(s);
      if (kind != ScheduleKind::kTwoBw || request.steps == 1) continue;
      const std::int64_t flying = static_cast<std::int64_t>(warmup_of(lane, stage) + 1) * replicas_of(lane, stage);
      if (lane.workers < flying) {
        return input_error(fmt::format("found {} workers a step, but stage {} keeps {} in flight, of more than two "
                                       "steps: 2bw has weights for two; expected at least {} workers a step",
                                       lane.workers, s, flying, flying),
                           {.field = field + ".workers"});
      }
    }
  }
  return {};
}

/// Writes the list of one device.
class Writer {
 public:
  Writer(Schedule& schedule, DeviceProgram& program) : schedule_(schedule), program_(program) {}

  void data_round(int worker, int count, int version) {
    pass(ScheduleOpKind::kLoad, worker, 0, count);
    pass(ScheduleOpKind::kForward, worker, version, count);
    if (!schedule_.forward_only) pass(ScheduleOpKind::kBackward, worker, version, count);
  }

  /// `previous`, `next`: the devices of the neighbouring stages that have the worker.
  void forward(int worker, int version, int previous, int next) {
    if (program_.first_stage()) {
      pass(ScheduleOpKind::kLoad, worker, 0);
    } else {
      message(ScheduleOpKind::kReceive, Payload::kActivations, worker, previous);
    }
    pass(ScheduleOpKind::kForward, worker, version);
    if (!program_.last_stage()) message(ScheduleOpKind::kSend, Payload::kActivations, worker, next);
  }

  void backward(int worker, int version, int previous, int next) {
    if (!program_.last_stage()) message(ScheduleOpKind::kReceive, Payload::kGradients, worker, next);
    if (program_.recompute) pass(ScheduleOpKind::kRecompute, worker, version);
    pass(ScheduleOpKind::kBackward, worker, version);
    if (!program_.first_stage()) message(ScheduleOpKind::kSend, Payload::kGradients, worker, previous);
  }

  void keep(ScheduleOpKind kind, int version) { program_.ops.push_back({.kind = kind, .version = version}); }

  /// Whether the device has anything to update.
  bool updates() const {
    return std::any_of(program_.segments.begin(), program_.segments.end(),
                       [&](int segment) { return schedule_.segments[static_cast<std::size_t>(segment)].buckets > 0; });
  }

  /// Reduces and updates of all that the device holds.
  void update(int version) {
    const bool at_once = schedule_.sync == Sync::kOverlap && !schedule_.clip_norm;
    for_each_bucket([&](int segment, int bucket) {
      collective(ScheduleOpKind::kReduce, segment, bucket, version);
      if (at_once) collective(ScheduleOpKind::kUpdate, segment, bucket, version);
    });
    if (schedule_.clip_norm) collective(ScheduleOpKind::kNorm, -1, -1, version);
    if (at_once) return;
    for_each_bucket([&](int segment, int bucket) { collective(ScheduleOpKind::kUpdate, segment, bucket, version); });
  }

 private:
  template <typename Visit>
  void for_each_bucket(Visit visit) {
    for (auto segment = program_.segments.rbegin(); segment != program_.segments.rend(); ++segment) {
      const int buckets = schedule_.segments[static_cast<std::size_t>(*segment)].buckets;
      for (int bucket = 0; bucket < buckets; ++bucket) visit(*segment, bucket);
    }
  }
  void pass(ScheduleOpKind kind, int worker, int version, int count = 1) {
    program_.ops.push_back({.kind = kind, .worker = worker, .count = count, .version = version});
  }
  void message(ScheduleOpKind kind, Payload payload, int worker, int peer) {
    program_.ops.push_back({.kind = kind, .payload = payload, .worker = worker, .peer = peer});
  }
  void collective(ScheduleOpKind kind, int segment, int bucket, int version) {
    program_.ops.push_back({.kind = kind, .segment = segment, .bucket = bucket, .version = version});
  }

  Schedule& schedule_;
  DeviceProgram& program_;
};

/// A worker that passes a device, and when its gradient goes into the weights.
struct Passage {
  int worker = 0;
  int in_lane = 0;  // its number among the workers that are dealt to the stages together
  int round = 0;    // of updates that it goes into
  int version = 0;
};

/// Writes the lists of one pipeline lane.
class PipelineWriter {
 public:
  /// `first_program`: of the lane; `first_worker`: the lane's first in a step.
  PipelineWriter(Schedule& schedule, const PipelineLane& lane, int first_program, int first_worker)
      : schedule_(schedule), lane_(lane), kind_(*parse_schedule_kind(lane.schedule)), first_worker_(first_worker) {
    int next = first_program;
    for (int stage = 0; stage < stages(); ++stage) {
      first_programs_.push_back(next);
      next += replicas(stage);
    }
  }

  void write() {
    for (int stage = 0; stage < stages(); ++stage) {
      for (int replica = 0; replica < replicas(stage); ++replica) write(stage, replica);
    }
  }

 private:
  int stages() const { return static_cast<int>(lane_.stages.size()); }
  int replicas(int stage) const { return replicas_of(lane_, stage); }
  bool drained() const { return keeps_the_math(kind_); }

  /// Of the lane in a step.
  int workers_in(int step) const {
    const int present =
        std::min(schedule_.step_workers, schedule_.workers - step * schedule_.step_workers) - first_worker_;
    return std::clamp(present, 0, lane_.workers);
  }

  /// The device of a neighbouring stage; -1 beyond the ends.
  int program_at(int stage, int in_lane) const {
    if (stage < 0 || stage >= stages()) return -1;
    return first_programs_[static_cast<std::size_t>(stage)] + in_lane % replicas(stage);
  }

  int stashed_version(int stage, int worker) const {
    if (lane_.vertical_sync && stage > 0) {
      // Below 2^63: both factors are below 2^31.
      const auto contained = static_cast<std::int64_t>(stashed_version(0, worker)) * replicas(0);
      return static_cast<int>(contained / replicas(stage));
    }
    return std::max(0, worker / replicas(stage) - warmup_of(lane_, stage));
  }

  /// The workers of a replica. Schedules that are drained deal each step anew.
  std::vector<Passage> passages(int stage, int replica, int step) const {
    std::vector<Passage> own;
    const int count = replicas(stage);
    const int workers = drained() ? workers_in(step) : schedule_.workers;
    for (int i = replica; i < workers; i += count) {
      Passage passage{.worker = i, .in_lane = i};
      if (drained()) {
        passage.worker = step * schedule_.step_workers + first_worker_ + i;
        passage.round = passage.version = step;
      } else if (kind_ == ScheduleKind::kTwoBw) {
        passage.round = i / schedule_.step_workers;
        passage.version = std::max(0, passage.round - 1);
      } else {
        passage.round = i / count;
        passage.version = stashed_version(stage, i);
      }
      if (schedule_.forward_only) passage.version = 0;
      own.push_back(passage);
    }
    return own;
  }

  void write(int stage, int replica) {
    Writer writer(schedule_, schedule_.programs[static_cast<std::size_t>(program_at(stage, replica))]);
    if (drained()) {
      for (int step = 0; step < schedule_.steps; ++step) {
        write(writer, stage, passages(stage, replica, step), step, step + 1);
      }
    } else {
      const int rounds = kind_ == ScheduleKind::kTwoBw ? schedule_.steps : ceil_div(schedule_.workers, replicas(stage));
      write(writer, stage, passages(stage, replica, 0), 0, rounds);
    }
  }

  /// Filled, and drained at the end. Updates rounds `first_round` .. `end_round` - 1.
  void write(Writer& writer, int stage, const std::vector<Passage>& own, int first_round, int end_round) {
    const std::size_t count = own.size();
    const auto forward = [&](const Passage& passage) {
      writer.forward(passage.worker, passage.version, program_at(stage - 1, passage.in_lane),
                     program_at(stage + 1, passage.in_lane));
    };
    if (schedule_.forward_only) {
      for (const Passage& passage : own) forward(passage);
      return;
    }
    const bool all = kind_ == ScheduleKind::kGpipe;
    const std::size_t warm = all ? count : std::min(count, static_cast<std::size_t>(warmup_of(lane_, stage)));
    for (std::size_t i = 0; i < warm; ++i) forward(own[i]);
    std::map<int, std::size_t> last_use;  // of each version: the passage
    for (std::size_t i = 0; i < count; ++i) last_use[own[i].version] = i;
    std::set<int> stashed;
    int round = first_round;
    for (std::size_t i = 0; i < count; ++i) {
      if (warm + i < count) forward(own[warm + i]);
      const Passage& passage = own[i];
      const bool last_of_round = i + 1 == count || own[i + 1].round != passage.round;
      // In round k, version k is replaced.
      const auto replaced = last_use.find(passage.round);
      if (writer.updates() && last_of_round && replaced != last_use.end() && replaced->second > i) {
        writer.keep(ScheduleOpKind::kStash, passage.round);
        stashed.insert(passage.round);
      }
      writer.backward(passage.worker, passage.version, program_at(stage - 1, passage.in_lane),
                      program_at(stage + 1, passage.in_lane));
      if (last_use[passage.version] == i && stashed.erase(passage.version) > 0) {
        writer.keep(ScheduleOpKind::kDrop, passage.version);
      }
      if (last_of_round) {
        writer.update(passage.round + 1);
        round = passage.round + 1;
      }
    }
    // Rounds in which this device has no worker: the last, where workers are fewer than replicas.
    for (; round < end_round; ++round) writer.update(round + 1);
  }

  Schedule& schedule_;
  const PipelineLane& lane_;
  ScheduleKind kind_;
  int first_worker_;
  std::vector<int> first_programs_;  // by stage
};

void write_data_lane(Schedule& schedule, const DataLane& lane, int program, int first_worker) {
  Writer writer(schedule, schedule.programs[static_cast<std::size_t>(program)]);
  for (int step = 0; step < schedule.steps; ++step) {
    const int begin = step * schedule.step_workers;
    const int present = std::min(schedule.step_workers, schedule.workers - begin) - first_worker;
    const int workers = std::clamp(present, 0, lane.workers());
    for (int done = 0; done < workers; done += lane.vsw) {
      const int version = schedule.forward_only ? 0 : step;
      writer.data_round(begin + first_worker + done, std::min(lane.vsw, workers - done), version);
    }
    if (!schedule.forward_only) writer.update(step + 1);
  }
}

/// What to tell the user of a pipeline that stands still: the stage that lets too few in.
base::Error standstill_error(const Plan& plan, const Schedule& schedule, const std::vector<Standstill>& standing) {
  const int data_lanes = static_cast<int>(plan.data_lanes.size());
  for (const Standstill& at : standing) {
    const DeviceProgram& program = schedule.programs[static_cast<std::size_t>(at.program)];
    if (!at.compute || program.stage == 0) continue;
    const ScheduleOp& op = program.ops[*at.compute];
    if (op.kind != ScheduleOpKind::kReceive || op.payload != Payload::kActivations) continue;
    const auto lane_index = static_cast<std::size_t>(program.lane - data_lanes);
    const PipelineLane& lane = plan.pipeline_lanes[lane_index];
    const int before = program.stage - 1;
    const std::int64_t wanted = static_cast<std::int64_t>(warmup_of(lane, program.stage)) * program.replicas;
    const std::int64_t given = warmup_of(lane, before);
    const int replicas = replicas_of(lane, before);
    if ((given + 1) * replicas > wanted) continue;
    return input_error(
        fmt::format("the pipeline would stand still: stage {} lets {} workers in before its first backward pass, but "
                    "stage {} wants {} before its own; found a warm-up of {}, expected at least {}",
                    before, (given + 1) * replicas, program.stage, wanted + 1, given, wanted / replicas),
        {.field = fmt::format("{}.stages[{}].warmup", lane_field(lane_index), before)});
  }
  const Standstill& first = standing.front();
  const DeviceProgram& program = schedule.programs[static_cast<std::size_t>(first.program)];
  const std::size_t op = first.compute ? *first.compute : *first.reducer;
  return input_error(
      fmt::format("the pipeline would stand still with these warm-ups: stage {} on {} waits for ever at: "
                  "{}; leave the warm-ups out, or raise those of earlier stages",
                  program.stage, program.device.to_string(), describe(program.ops[op], schedule)),
      {.field = fmt::format("{}.stages[{}].warmup", lane_field(static_cast<std::size_t>(program.lane - data_lanes)),
                            program.stage)});
}

bool has_warmup(const Plan& plan) {
  for (const auto& lane : plan.pipeline_lanes) {
    for (const auto& stage : lane.stages) {
      if (stage.warmup) return true;
    }
  }
  return false;
}

}  // namespace

std::string_view to_string(ScheduleKind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

base::Result<ScheduleKind> parse_schedule_kind(std::string_view text, const base::Where& where) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), text);
  if (found == kKindNames.end()) {
    return input_error(fmt::format("found {}, expected {}{}", base::quote(text), base::join_words(kKindNames, "or"),
                                   base::did_you_mean(text, kKindNames)),
                       where);
  }
  return static_cast<ScheduleKind>(found - kKindNames.begin());
}

bool keeps_the_math(ScheduleKind kind) {
  return kind != ScheduleKind::kStash && kind != ScheduleKind::kTwoBw;
}

base::Result<std::vector<Segment>> segments_of(const Plan& plan) {
  YOKE_CHECK(validate(plan));
  YOKE_TRY(auto programs, programs_of(plan));
  return cut_segments(plan, programs);
}

int warmup_of(const PipelineLane& lane, int stage) {
  const PipelineStage& own = lane.stages[static_cast<std::size_t>(stage)];
  if (own.warmup) return *own.warmup;
  std::size_t devices = 0;
  for (std::size_t s = static_cast<std::size_t>(stage); s < lane.stages.size(); ++s) {
    devices += lane.stages[s].devices.size();
  }
  return static_cast<int>((devices - 1) / own.devices.size());
}

double rate_factor_of(const PipelineLane& lane, int stage) {
  if (lane.schedule != to_string(ScheduleKind::kStash)) return 1;
  return static_cast<double>(replicas_of(lane, stage)) / replicas_of(lane, 0);
}

base::Result<Schedule> make_schedule(const Plan& plan, const ScheduleRequest& request) {
  YOKE_CHECK(validate(plan));
  Schedule schedule{
      .steps = request.steps, .sync = plan.sync, .clip_norm = request.clip_norm, .forward_only = request.forward_only};
  YOKE_TRY(schedule.programs, programs_of(plan));
  YOKE_TRY(schedule.segments, cut_segments(plan, schedule.programs));
  YOKE_CHECK(check_request(plan, request, schedule.segments.size()));
  YOKE_CHECK(check_lanes(plan, request));
  for (std::size_t i = 0; i < request.buckets.size(); ++i) schedule.segments[i].buckets = request.buckets[i];
  schedule.step_workers = static_cast<int>(plan.workers());
  const int absent = request.last_step_workers == 0 ? 0 : schedule.step_workers - request.last_step_workers;
  schedule.workers = schedule.step_workers * request.steps - absent;

  int program = 0;
  int first_worker = 0;
  for (const DataLane& lane : plan.data_lanes) {
    write_data_lane(schedule, lane, program++, first_worker);
    first_worker += lane.workers();
  }
  bool may_stand = has_warmup(plan);
  for (const PipelineLane& lane : plan.pipeline_lanes) {
    PipelineWriter(schedule, lane, program, first_worker).write();
    for (const auto& stage : lane.stages) program += static_cast<int>(stage.devices.size());
    first_worker += lane.workers;
    may_stand = may_stand || !keeps_the_math(*parse_schedule_kind(lane.schedule));
  }
  if (may_stand) {
    const auto standing = run_dry(schedule);
    if (!standing.empty()) return standstill_error(plan, schedule, standing);
  }
  return schedule;
}

std::string describe(const ScheduleOp& op, const Schedule& schedule) {
  const auto workers = [&] {
    return op.count == 1 ? fmt::format("worker {}", op.worker)
                         : fmt::format("workers {} to {}", op.worker, op.worker + op.count - 1);
  };
  const auto peer = [&]() -> std::string {
    const auto index = static_cast<std::size_t>(op.peer);
    return index < schedule.programs.size() ? schedule.programs[index].device.to_string() : "nobody";
  };
  const char* what = op.payload == Payload::kActivations ? "activations" : "gradients";
  switch (op.kind) {
    case ScheduleOpKind::kLoad:
      return fmt::format("load of {}", workers());
    case ScheduleOpKind::kForward:
      return fmt::format("forward of {} with version {}", workers(), op.version);
    case ScheduleOpKind::kRecompute:
      return fmt::format("recompute of {} with version {}", workers(), op.version);
    case ScheduleOpKind::kBackward:
      return fmt::format("backward of {} with version {}", workers(), op.version);
    case ScheduleOpKind::kSend:
      return fmt::format("send of the {} of {} to {}", what, workers(), peer());
    case ScheduleOpKind::kReceive:
      return fmt::format("receive of the {} of {} from {}", what, workers(), peer());
    case ScheduleOpKind::kReduce:
      return fmt::format("reduce of bucket {} of segment {} for version {}", op.bucket, op.segment, op.version);
    case ScheduleOpKind::kNorm:
      return fmt::format("norm of the gradients for version {}", op.version);
    case ScheduleOpKind::kUpdate:
      return fmt::format("update of bucket {} of segment {} to version {}", op.bucket, op.segment, op.version);
    case ScheduleOpKind::kStash:
      return fmt::format("stash of version {}", op.version);
    case ScheduleOpKind::kDrop:
      return fmt::format("drop of version {}", op.version);
  }
  return "unknown op";
}

}  // namespace yoke::plan
