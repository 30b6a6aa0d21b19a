#include "yoke/plan/solve/auto/auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "yoke/base/text.h"
#include "yoke/plan/solve/pipeline/overlap.h"
#include "yoke/plan/solve/pipeline/overlap_lane.h"

namespace yoke::plan {
namespace {

/// Mixes of more kinds of nodes than this are too many to try; beyond, only single kinds are set apart.
constexpr int kMostGroupsInMixes = 4;
/// Workers that a mix moves to either side of the split that the paces suggest.
constexpr int kSplitsTried = 2;
/// Workers more that a stage lets in for each stage after it.
constexpr int kMostExtraWarmup = 4;
/// The part of a step that must be gained before another candidate is offered.
constexpr double kWorthwhile = 0.005;
/// With more devices, only the split that the paces suggest is judged.
constexpr int kManyDevices = 256;

PipelineSchedule solver_schedule(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kGpipe:
      return PipelineSchedule::kGpipe;
    case ScheduleKind::kFlush:
      return PipelineSchedule::kFlush;
    default:
      return PipelineSchedule::kStash;
  }
}

/// `2-1-1`
std::string shape_of(const PipelineLane& lane) {
  std::string text;
  for (const auto& stage : lane.stages) text += fmt::format("{}{}", text.empty() ? "" : "-", stage.devices.size());
  return text;
}

/// `parts` whole numbers in proportion to `weights` that add up to `total`: by largest remainder, at least 0 each.
std::vector<int> apportion(int total, const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  std::vector<int> result;
  std::vector<std::pair<double, std::size_t>> rests;
  int given = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = total * weights[i] / sum;
    result.push_back(static_cast<int>(std::floor(exact)));
    given += result.back();
    rests.emplace_back(-(exact - std::floor(exact)), i);
  }
  std::sort(rests.begin(), rests.end());
  for (int i = 0; i < total - given; ++i) ++result[rests[static_cast<std::size_t>(i) % rests.size()].second];
  return result;
}

class AutoSolver {
 public:
  AutoSolver(const AutoInputs& inputs, const AutoRequest& request, const PlanJudge& judge)
      : inputs_(inputs), request_(request), judge_(judge) {}

  base::Result<AutoResult> solve() {
    YOKE_CHECK(check());
    if (allowed(ScheduleKind::kData)) YOKE_CHECK(data_lanes());
    if (inputs_.graph != nullptr && !only_data()) {
      if (request_.gbs % *minibatch() == 0) {
        YOKE_CHECK(pipelines());
      } else {
        leave_out("pipelines", indivisible());
      }
    }
    if (result_.candidates.empty()) return nothing_fits();
    std::stable_sort(result_.candidates.begin(), result_.candidates.end(), [](const Candidate& a, const Candidate& b) {
      return a.judgement.step_seconds < b.judgement.step_seconds;
    });
    return std::move(result_);
  }

 private:
  bool allowed(ScheduleKind kind) const {
    return std::find(request_.schedules.begin(), request_.schedules.end(), kind) != request_.schedules.end();
  }

  bool only_data() const { return request_.schedules == std::vector{ScheduleKind::kData}; }
  /// Of pipelines.
  std::optional<int> minibatch() const { return request_.lbs ? request_.lbs : inputs_.graph->lbs(); }
  int workers() const { return request_.gbs / *minibatch(); }
  std::string indivisible() const {
    return fmt::format("found {}, expected a multiple of the local batch size {}", request_.gbs, *minibatch());
  }

  base::Status check() const {
    const auto fail = [](const char* field, std::string message) -> base::Status {
      return base::input_error(std::move(message), {.field = field});
    };
    if (inputs_.cost == nullptr && inputs_.graph == nullptr) return fail("profile", "found no profile");
    if (request_.gbs < 1) return fail("gbs", fmt::format("found {}, expected at least 1", request_.gbs));
    if (request_.schedules.empty()) return fail("schedule", "found no schedule, expected at least one");
    if (inputs_.graph == nullptr && !allowed(ScheduleKind::kData)) {
      return fail("schedule", "a pipeline needs a layer profile, and there is none");
    }
    if (inputs_.graph == nullptr || only_data()) return {};
    if (!minibatch()) return fail("lbs", "found none, expected the minibatch size of the layer profile");
    if (*minibatch() < 1) return fail("lbs", fmt::format("found {}, expected at least 1", *minibatch()));
    if (request_.gbs % *minibatch() != 0) {
      // Data lanes may find another local batch size.
      const bool others = !request_.lbs && inputs_.cost != nullptr && allowed(ScheduleKind::kData) &&
                          inputs_.cost->local_batch_sizes() != std::vector{*minibatch()};
      return others ? base::Status() : fail("gbs", indivisible());
    }
    if (workers() > kMaxWorkers)
      return fail("gbs", fmt::format("found {} workers, expected at most {}", workers(), kMaxWorkers));
    return {};
  }

  void leave_out(const std::string& name, const std::string& why) {
    result_.left_out.push_back(fmt::format("{}: {}", name, why));
  }

  /// What the user got wrong stops everything; what cannot run is noted.
  base::Status note(const std::string& name, const base::Error& error) {
    if (error.kind == base::ErrorKind::kInternal) return error;
    infeasible_ = infeasible_ || error.kind == base::ErrorKind::kInfeasible;
    leave_out(name, error.message);
    return {};
  }

  /// Whether the plan fits and is now a candidate.
  base::Result<bool> consider(std::string name, Plan plan) {
    plan.model = request_.model;
    const auto judged = judge_.judge(plan);
    if (!judged.ok()) {
      YOKE_CHECK(note(name, judged.error()));
      return false;
    }
    if (!judged->excess.empty()) {
      infeasible_ = true;
      leave_out(name, judged->excess);
      return false;
    }
    add(std::move(name), std::move(plan), *judged);
    return true;
  }

  void add(std::string name, Plan plan, const Judgement& judgement) {
    // Data lanes have what their cost model predicts.
    if (plan.step_seconds == 0) plan.step_seconds = judgement.step_seconds;
    result_.candidates.push_back({.name = std::move(name), .plan = std::move(plan), .judgement = judgement});
  }

  base::Status data_lanes() {
    if (inputs_.cost == nullptr) {
      if (!inputs_.no_cost.empty()) return note("data lanes", base::infeasible_error(inputs_.no_cost));
      return {};
    }
    for (const bool may_idle : {false, true}) {
      BatchRequest batch{.gbs = request_.gbs, .lbs = request_.lbs, .sync = request_.sync};
      if (may_idle) batch.idle_unit = 1;
      const auto solved = solve_batch(*inputs_.cost, batch);
      const std::string name = may_idle ? "data lanes, some idle" : "data lanes";
      if (!solved.ok()) {
        if (solved.error().kind == base::ErrorKind::kInput) return solved.error();
        YOKE_CHECK(note(name, solved.error()));
        continue;
      }
      if (may_idle && solved->extent.devices == inputs_.cluster.device_count()) continue;  // none stays idle
      Plan plan{.gbs = solved->gbs,
                .lbs = solved->lbs,
                .sync = solved->sync,
                .step_seconds = solved->step_seconds,
                .cost_model = inputs_.cost_name};
      for (const auto& lane : solved->lanes) {
        for (int i = 0; i < lane.devices; ++i) {
          plan.data_lanes.push_back(
              {.device = {lane.node, lane.first_device + i}, .vsw = lane.vsw, .ga = lane.ga, .seconds = lane.parts});
        }
      }
      YOKE_TRY(const bool fits, consider(name, std::move(plan)));
      if (fits) result_.candidates.back().solution = *solved;
    }
    return {};
  }

  base::Status pipelines() {
    YOKE_TRY(groups_, node_groups(inputs_.cluster, request_.profiled_on));
    for (const ScheduleKind kind : request_.schedules) {
      if (kind == ScheduleKind::kData) continue;
      YOKE_CHECK(one_pipeline(kind));
      if (!keeps_the_math(kind)) continue;  // those stand alone
      YOKE_CHECK(pipeline_in_each_node(kind));
      YOKE_CHECK(mixes(kind));
    }
    return {};
  }

  /// `recompute`: without regard to memory, which the judge sees to.
  base::Result<OverlapResult> cut(std::vector<NodeGroup> groups, ScheduleKind kind, int count, bool recompute,
                                  bool may_idle, int most_replicas = 0) const {
    OverlapOptions options{.schedule = solver_schedule(kind),
                           .aim = keeps_the_math(kind) ? PipelineAim::kStep : PipelineAim::kPace,
                           .micro_batches = count,
                           .optimizer_copies = request_.optimizer_copies,
                           .may_idle = may_idle,
                           .most_replicas = most_replicas};
    for (auto& each : groups) {
      if (recompute) each.group.memory_bytes.reset();
      options.groups.push_back(each.group);
    }
    return solve_overlap(*inputs_.graph, options);
  }

  PipelineLane lane_of(const OverlapResult& result, const std::vector<NodeGroup>& groups, ScheduleKind kind, int count,
                       bool recompute) const {
    PipelineLane lane = to_lane(result, groups, *inputs_.graph, std::string(to_string(kind)), count);
    lane.recompute = recompute;
    return lane;
  }

  Plan plan_of(std::vector<PipelineLane> lanes) const {
    Plan plan{.gbs = request_.gbs,
              .lbs = *minibatch(),
              .sync = request_.sync.value_or(Sync::kOverlap),
              .cost_model = "simulated"};
    plan.pipeline_lanes = std::move(lanes);
    return plan;
  }

  static std::string name_of(ScheduleKind kind, const PipelineLane& lane) {
    return fmt::format("{} pipeline {}{}", to_string(kind), shape_of(lane), lane.recompute ? ", recomputing" : "");
  }

  /// Groups as seen by a solver that knows nothing of shared cards: as if every device of a node sent at once.
  std::vector<NodeGroup> with_divided_cards() const {
    auto groups = groups_;
    for (auto& each : groups) each.group.inter_bytes_per_s /= each.group.devices_per_node;
    return groups;
  }

  /// Cut with and without regard to memory, to shared cards and to idle devices: the solver's cost model leaves these
  /// open, the judge does not.
  base::Status one_pipeline(ScheduleKind kind) {
    std::vector<std::vector<NodeGroup>> views{groups_};
    const auto shares_cards = [](const NodeGroup& each) { return each.group.devices_per_node > 1; };
    if (inputs_.cluster.nodes().size() > 1 && std::any_of(groups_.begin(), groups_.end(), shares_cards)) {
      views.push_back(with_divided_cards());
    }
    std::vector<PipelineLane> tried;
    for (const bool recompute : {false, true}) {
      for (const auto& view : views) {
        for (const bool may_idle : {false, true}) {
          auto solved = cut(view, kind, workers(), recompute, may_idle);
          if (!solved.ok()) {
            if (solved.error().kind == base::ErrorKind::kInput) return solved.error();
            if (tried.empty() && !may_idle && &view == &views.front()) {
              YOKE_CHECK(note(fmt::format("{} pipeline", to_string(kind)), solved.error()));
            }
            break;  // what idle devices allow, busy ones do
          }
          const int devices = inputs_.cluster.device_count();
          if (solved->stages.size() == 1 && !allowed(ScheduleKind::kData) && devices > 1) {
            // Who wants a pipeline gets one, wherever the model can be cut.
            const auto divided = cut(view, kind, workers(), recompute, false, devices - 1);
            if (divided.ok()) solved = *divided;
          }
          PipelineLane lane = lane_of(*solved, view, kind, workers(), recompute);
          if (lane.stages.size() == 1 && allowed(ScheduleKind::kData)) continue;  // data lanes by another name
          if (known(lane, tried)) continue;
          tried.push_back(lane);
          YOKE_TRY(const bool fits, consider(name_of(kind, lane), plan_of({lane})));
          if (fits && kind != ScheduleKind::kGpipe) YOKE_CHECK(longer_warmups(kind, lane));
        }
      }
    }
    return {};
  }

  /// PipeDream's warm-up leaves no time for messages on their way; more workers in flight hide them, if the memory
  /// allows.
  base::Status longer_warmups(ScheduleKind kind, const PipelineLane& lane) {
    double fastest = result_.candidates.back().judgement.step_seconds;
    const int stages = static_cast<int>(lane.stages.size());
    for (int extra = 1; extra <= kMostExtraWarmup; ++extra) {
      PipelineLane longer = lane;
      std::string warmups;
      for (int s = 0; s < stages; ++s) {
        const int warmup = warmup_of(lane, s) + extra * (stages - 1 - s);
        longer.stages[static_cast<std::size_t>(s)].warmup = warmup;
        warmups += fmt::format("{}{}", s == 0 ? "" : "-", warmup);
      }
      Plan plan = plan_of({std::move(longer)});
      plan.model = request_.model;
      const auto judged = judge_.judge(plan);
      if (!judged.ok() && judged.error().kind == base::ErrorKind::kInternal) return judged.error();
      // A try that stands still, does not fit or gains nothing is not worth a line.
      if (!judged.ok() || !judged->excess.empty() || judged->step_seconds > fastest * (1 - kWorthwhile)) break;
      fastest = judged->step_seconds;
      add(fmt::format("{}, warm-up {}", name_of(kind, lane), warmups), std::move(plan), *judged);
    }
    return {};
  }

  /// Whether such a lane was judged already. One that recomputes is not needed where the same cut fitted without.
  bool known(const PipelineLane& lane, const std::vector<PipelineLane>& tried) const {
    return std::any_of(tried.begin(), tried.end(), [&](const PipelineLane& each) {
      const bool same =
          std::equal(each.stages.begin(), each.stages.end(), lane.stages.begin(), lane.stages.end(),
                     [](const auto& a, const auto& b) { return a.layers == b.layers && a.devices == b.devices; });
      if (!same || each.recompute == lane.recompute) return same;
      return std::any_of(result_.candidates.begin(), result_.candidates.end(), [&](const Candidate& candidate) {
        return candidate.plan.pipeline_lanes == std::vector{each};
      });
    });
  }

  /// The same pipeline in every node, each with its share of the workers.
  base::Status pipeline_in_each_node(ScheduleKind kind) {
    if (inputs_.cluster.nodes().size() < 2) return {};
    std::vector<double> rates;
    std::vector<NodeGroup> nodes;
    for (const auto& group : groups_) {
      if (group.group.devices_per_node < 2) return {};
      for (const auto& node : group.nodes) {
        nodes.push_back(group);
        nodes.back().group.nodes = 1;
        nodes.back().nodes = {node};
        rates.push_back(group.group.speed * group.group.devices_per_node);
      }
    }
    const auto shares = apportion(workers(), rates);
    std::vector<PipelineLane> lanes;
    const std::string name = fmt::format("a {} pipeline in each node", to_string(kind));
    std::optional<OverlapResult> solved;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (shares[i] == 0) return {};
      const bool same = i > 0 && shares[i] == shares[i - 1] && nodes[i].group.type == nodes[i - 1].group.type &&
                        nodes[i].group.speed == nodes[i - 1].group.speed &&
                        nodes[i].group.devices_per_node == nodes[i - 1].group.devices_per_node &&
                        nodes[i].group.memory_bytes == nodes[i - 1].group.memory_bytes;
      if (!same) {
        const auto each = cut({nodes[i]}, kind, shares[i], false, false);
        if (!each.ok()) return note(name, each.error());
        solved = *each;
      }
      lanes.push_back(lane_of(*solved, {nodes[i]}, kind, shares[i], false));
      if (lanes.back().stages.size() == 1) return {};  // data lanes by another name
    }
    const std::string shape = shape_of(lanes.front());
    YOKE_CHECK(consider(fmt::format("{}, {}", name, shape), plan_of(std::move(lanes))));
    return {};
  }

  /// A pipeline over some kinds of nodes, data lanes on the others.
  base::Status mixes(ScheduleKind kind) {
    const int count = static_cast<int>(groups_.size());
    if (count < 2) return {};
    if (count <= kMostGroupsInMixes) {
      for (unsigned chosen = 1; chosen + 1 < 1U << static_cast<unsigned>(count); ++chosen)
        YOKE_CHECK(mix(kind, chosen));
      return {};
    }
    for (int i = 0; i < count; ++i) {
      YOKE_CHECK(mix(kind, 1U << static_cast<unsigned>(i)));
      YOKE_CHECK(mix(kind, ((1U << static_cast<unsigned>(count)) - 1) & ~(1U << static_cast<unsigned>(i))));
    }
    return {};
  }

  /// Devices for data lanes, with the seconds of a worker on each.
  struct Worker {
    cluster::DeviceId device;
    double seconds = 0;
  };

  base::Status mix(ScheduleKind kind, unsigned chosen) {
    double layers = 0;  // seconds of a worker at the speed of the profile
    for (const auto& layer : inputs_.graph->layers()) layers += (layer.forward_ms + layer.backward_ms) / 1000;
    std::vector<NodeGroup> piped;
    std::vector<Worker> data;
    std::string where;
    double data_rate = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const NodeGroup& each = groups_[g];
      if ((chosen >> g & 1U) != 0) {
        piped.push_back(each);
        where += (where.empty() ? "" : " and ") + each.group.type;
        continue;
      }
      for (int i = 0; i < each.group.devices(); ++i) data.push_back({each.device(i), layers / each.group.speed});
      data_rate += each.group.devices() * each.group.speed / layers;
    }
    int devices = 0;
    for (const auto& each : piped) devices += each.group.devices();
    if (devices < 2 || !(layers > 0)) return {};
    const std::string name = fmt::format("{} pipeline on {}, data lanes on the rest", to_string(kind), where);
    const auto pace = cut(piped, kind, std::max(1, workers() / 2), false, true);
    if (!pace.ok()) return note(name, pace.error());
    const double pipe_rate = 1 / pace->seconds_per_minibatch;
    const int middle = static_cast<int>(std::lround(workers() * pipe_rate / (pipe_rate + data_rate)));
    const int reach = inputs_.cluster.device_count() > kManyDevices ? 0 : kSplitsTried;
    std::optional<Candidate> best;
    std::string why;
    for (int in_pipe = std::max(1, middle - reach); in_pipe <= std::min(workers() - 1, middle + reach); ++in_pipe) {
      const auto solved = cut(piped, kind, in_pipe, false, true);
      if (!solved.ok()) continue;
      PipelineLane lane = lane_of(*solved, piped, kind, in_pipe, false);
      if (lane.stages.size() == 1) return {};  // data lanes by another name
      Plan plan = plan_of({std::move(lane)});
      deal(data, workers() - in_pipe, plan);
      plan.model = request_.model;
      const auto judged = judge_.judge(plan);
      if (!judged.ok() || !judged->excess.empty()) {
        why = judged.ok() ? judged->excess : judged.error().message;
        infeasible_ = infeasible_ || judged.ok();
        continue;
      }
      if (!best || judged->step_seconds < best->judgement.step_seconds) {
        best = Candidate{
            .name = fmt::format("{} ({})", name, shape_of(plan.pipeline_lanes[0])), .plan = plan, .judgement = *judged};
      }
    }
    if (best) {
      add(best->name, best->plan, best->judgement);
    } else if (!why.empty()) {
      leave_out(name, why);
    }
    return {};
  }

  /// Each worker to the device that would be done with it first.
  static void deal(const std::vector<Worker>& devices, int count, Plan& plan) {
    std::vector<int> dealt(devices.size(), 0);
    for (int i = 0; i < count; ++i) {
      std::size_t first = 0;
      for (std::size_t d = 1; d < devices.size(); ++d) {
        if ((dealt[d] + 1) * devices[d].seconds < (dealt[first] + 1) * devices[first].seconds) first = d;
      }
      ++dealt[first];
    }
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (dealt[d] > 0) plan.data_lanes.push_back({.device = devices[d].device, .vsw = 1, .ga = dealt[d] - 1});
    }
  }

  base::Error nothing_fits() const {
    constexpr std::size_t kShown = 3;
    std::string reasons = result_.left_out.empty() ? "nothing to try" : "";
    for (std::size_t i = 0; i < std::min(kShown, result_.left_out.size()); ++i) {
      reasons += (reasons.empty() ? "" : "; ") + result_.left_out[i];
    }
    if (result_.left_out.size() > kShown) reasons += fmt::format("; and {} more", result_.left_out.size() - kShown);
    const std::string message = "no plan can run: " + reasons;
    return infeasible_ ? base::infeasible_error(message) : base::input_error(message, {.field = "schedule"});
  }

  const AutoInputs& inputs_;
  const AutoRequest& request_;
  const PlanJudge& judge_;
  std::vector<NodeGroup> groups_;
  AutoResult result_;
  bool infeasible_ = false;  // something was left out for want of memory or the like
};

}  // namespace

base::Result<AutoResult> solve_auto(const AutoInputs& inputs, const AutoRequest& request, const PlanJudge& judge) {
  return AutoSolver(inputs, request, judge).solve();
}

}  // namespace yoke::plan
