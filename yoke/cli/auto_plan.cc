#include "yoke/cli/auto_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/cli/inputs.h"
#include "yoke/plan/cost/choose_cost.h"
#include "yoke/plan/cost/layer_model.h"
#include "yoke/plan/solve/pipeline/overlap_lane.h"
#include "yoke/profile/profile_folder.h"
#include "yoke/sim/judge.h"

namespace yoke::cli {
namespace {

using base::Result;
using base::Status;
using plan::ScheduleKind;
using profile::LayerGraph;

/// Whether any step was measured: a folder of layer profiles alone names nodes without times.
bool has_steps(const profile::ProfileSet& profiles) {
  return std::ranges::any_of(profiles.nodes, [](const profile::NodeProfile& node) {
    return std::ranges::any_of(node.by_lbs, [](const auto& entry) { return !entry.second.compute.empty(); });
  });
}

/// Absent sizes fit every size.
const LayerGraph* graph_of(const std::vector<LayerGraph>& graphs, std::optional<int> lbs) {
  for (const auto& graph : graphs) {
    if (!lbs || graph.lbs().value_or(*lbs) == *lbs) return &graph;
  }
  return nullptr;
}

std::string other_size(const LayerGraph& graph, int lbs) {
  return fmt::format(
      "found {}, expected {}, the minibatch size of the layer profile; `yoke profile layers --lbs {}` into the same "
      "folder measures it",
      lbs, *graph.lbs(), lbs);
}

/// One search for each local batch size, whose candidates then compete.
class Search {
 public:
  Search(cluster::Cluster cluster, const ModelProfiles& known, const AutoPlanRequest& request, Context& context)
      : cluster_(std::move(cluster)), network_(request.network), known_(known), request_(request), context_(context) {}

  Result<plan::AutoResult> run() {
    if (known_.profiles) {
      YOKE_TRY(cluster_, with_profiled_bandwidths(cluster_, known_.profiles->comm, context_));
      network_ = sim::with_measured_links(network_, known_.profiles->comm);
      if (allowed(ScheduleKind::kData) && has_steps(*known_.profiles)) {
        YOKE_TRY(measured_, plan::choose_cost("auto", cluster_, *known_.profiles));
        for (const auto& warning : measured_->warnings) context_.log.warning("{}", warning);
      }
    }
    std::vector<std::optional<int>> choices(request_.local.begin(), request_.local.end());
    if (choices.empty()) choices.emplace_back();
    plan::AutoResult all;
    std::optional<base::Error> fault;
    for (const auto& lbs : choices) {
      auto solved = solve(lbs);
      if (!solved.ok()) {
        if (!fault) fault = solved.error();
        continue;
      }
      std::ranges::move(solved->candidates, std::back_inserter(all.candidates));
      std::ranges::move(solved->left_out, std::back_inserter(all.left_out));
    }
    if (all.candidates.empty()) return *fault;
    std::ranges::stable_sort(all.candidates, {}, [](const auto& each) { return each.judgement.step_seconds; });
    return all;
  }

 private:
  bool allowed(ScheduleKind kind) const {
    return std::ranges::find(request_.search.schedules, kind) != request_.search.schedules.end();
  }
  bool only_data() const { return request_.search.schedules == std::vector{ScheduleKind::kData}; }

  /// Null: without one, which the user is told where measured steps do instead.
  Result<const LayerGraph*> choose_graph(std::optional<int> lbs) const {
    const LayerGraph* graph = graph_of(known_.graphs, lbs);
    if (graph == nullptr && !known_.graphs.empty()) {
      const std::string why = other_size(known_.graphs.front(), *lbs);
      if (!measured_) return base::input_error(why, {.field = "lbs"});
      if (!only_data()) context_.log.warning("pipelines are not considered: local batch size: {}", why);
    }
    if (graph == nullptr || !measured_ || !request_.search.profiled_on.empty()) return graph;
    const auto groups = plan::node_groups(cluster_, "");
    if (groups.ok()) return graph;
    if (!only_data()) context_.log.warning("pipelines are not considered: {}", groups.error().to_string());
    return nullptr;
  }

  Result<plan::AutoResult> solve(std::optional<int> lbs) const {
    plan::AutoRequest search = request_.search;
    search.lbs = lbs;
    YOKE_TRY(const LayerGraph* graph, choose_graph(lbs));
    plan::AutoInputs inputs{.cluster = cluster_, .graph = graph};
    const std::optional<int> minibatch = lbs || graph == nullptr ? lbs : graph->lbs();
    std::optional<plan::LayerModel> summed;
    if (measured_) {
      // Measured steps are better than sums of layers.
      inputs.cost = measured_->model.get();
      inputs.cost_name = measured_->name;
    } else if (allowed(ScheduleKind::kData) && graph != nullptr && minibatch.value_or(0) >= 1) {
      auto made = plan::LayerModel::make(
          cluster_, *graph,
          {.lbs = *minibatch, .profiled_on = search.profiled_on, .optimizer_copies = search.optimizer_copies});
      if (made.ok()) {
        summed = *std::move(made);
        inputs.cost = &*summed;
        inputs.cost_name = "layers";
      } else if (made.error().kind != base::ErrorKind::kInfeasible || only_data()) {
        return made.error();
      } else {
        inputs.no_cost = made.error().message;
      }
    }
    const sim::SimulatedJudge judge(
        cluster_, graph, {.optimizer_copies = search.optimizer_copies, .profiled_on = search.profiled_on}, network_);
    YOKE_TRY(plan::AutoResult result, plan::solve_auto(inputs, search, judge));
    const bool estimated = (measured_ && known_.profiles->source() == profile::Source::kEstimate) ||
                           (graph != nullptr && graph->source() == profile::Source::kEstimate);
    for (auto& each : result.candidates) {
      if (estimated) each.plan.source = profile::Source::kEstimate;
    }
    return result;
  }

  cluster::Cluster cluster_;
  sim::NetworkOptions network_;
  const ModelProfiles& known_;
  const AutoPlanRequest& request_;
  Context& context_;
  std::optional<plan::ChosenCost> measured_;
};

std::string percent(double share) {
  return fmt::format("{:.0f}%", 100 * share);
}

/// The candidate that shows best what the winner gains: data lanes, or the best that is none.
const plan::Candidate* rival(const plan::AutoResult& result) {
  const bool data_won = result.candidates.front().plan.pipeline_lanes.empty();
  for (std::size_t i = 1; i < result.candidates.size(); ++i) {
    if (result.candidates[i].plan.pipeline_lanes.empty() != data_won) return &result.candidates[i];
  }
  return result.candidates.size() > 1 ? &result.candidates[1] : nullptr;
}

}  // namespace

Result<ModelProfiles> load_model_profiles(const std::string& path, Context& context) {
  YOKE_TRY(AnyProfile any, load_any_profile(path, context));
  ModelProfiles known{.profiles = std::move(any.profiles), .graphs = {}};
  if (any.graph) known.graphs.push_back(*std::move(any.graph));
  const std::string layers = base::join_path(path, "layers");
  if (!base::is_folder(layers)) return known;
  YOKE_TRY(const auto nodes, base::list_folder(layers));
  for (const auto& node : nodes) {
    YOKE_TRY(const auto sizes, base::list_folder(base::join_path(layers, node)));
    for (const auto& size : sizes) {
      const std::string folder = base::join_path(layers, node + "/" + size);
      if (!base::exists(base::join_path(folder, "layers.json"))) continue;
      YOKE_TRY(LayerGraph graph, profile::load_layers(folder));
      if (graph.lbs() && graph_of(known.graphs, graph.lbs()) == nullptr) known.graphs.push_back(std::move(graph));
    }
  }
  return known;
}

int optimizer_copies(const plan::OptimizerSpec& optimizer) {
  if (optimizer.name != plan::OptimizerName::kSgd) return 2;
  return optimizer.momentum > 0 ? 1 : 0;
}

Result<AutoPlanRequest> request_of(const plan::Job& job) {
  AutoPlanRequest request;
  plan::AutoRequest& search = request.search;
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (job.batch.global > kMost) {
    return base::input_error(fmt::format("found {}, expected less than 2^31", job.batch.global),
                             {.field = "batch.global"});
  }
  search.gbs = static_cast<int>(job.batch.global);
  for (const auto lbs : job.batch.local) request.local.push_back(static_cast<int>(std::min(lbs, kMost)));
  search.optimizer_copies = optimizer_copies(job.optimizer);
  if (job.parallel.sync == plan::SyncChoice::kOverlap) search.sync = plan::Sync::kOverlap;
  if (job.parallel.sync == plan::SyncChoice::kSequential) search.sync = plan::Sync::kSequential;
  search.model = job.model.name;
  const bool pipeline = job.parallel.mode == plan::ParallelMode::kPipeline;
  const bool data = job.parallel.mode == plan::ParallelMode::kData;
  if (!job.parallel.schedule.empty()) {
    YOKE_TRY(const ScheduleKind kind, plan::parse_schedule_kind(job.parallel.schedule, {.field = "parallel.schedule"}));
    if (kind == ScheduleKind::kData ? pipeline : data) {
      return base::input_error(fmt::format("found `{}`, which does not go with `parallel.mode: {}`; leave one of them "
                                           "out",
                                           job.parallel.schedule, pipeline ? "pipeline" : "data"),
                               {.field = "parallel.schedule"});
    }
    search.schedules = {kind};
  } else if (data) {
    search.schedules = {ScheduleKind::kData};
  } else if (pipeline) {
    std::erase(search.schedules, ScheduleKind::kData);
  }
  return request;
}

Result<plan::AutoResult> solve_auto_plan(const cluster::Cluster& cluster, const ModelProfiles& known,
                                         const AutoPlanRequest& request, Context& context) {
  return Search(cluster, known, request, context).run();
}

std::string why_it_won(const plan::AutoResult& result) {
  const plan::Candidate& winner = result.candidates.front();
  const plan::Candidate* other = rival(result);
  if (other == nullptr) {
    return fmt::format("{}: nothing else {}", winner.name, result.left_out.empty() ? "is worth a try" : "can run");
  }
  const auto& a = winner.judgement;
  const auto& b = other->judgement;
  std::string text =
      fmt::format("{} wins: {} takes {:.2f}x as long", winner.name, other->name, b.step_seconds / a.step_seconds);
  const std::size_t devices = winner.plan.devices().size();
  if (other->plan.devices().size() != devices) {
    text += fmt::format(", on {} instead of {} devices", other->plan.devices().size(), devices);
  }
  text += ". ";
  const auto compare = [](const char* what, double here, double there) {
    return fmt::format("{} {} of the devices' time here, {} there", what, percent(here), percent(there));
  };
  // What differs most is why.
  const double communication = std::abs(a.exposed_communication - b.exposed_communication);
  const double bubble = std::abs(a.bubble - b.bubble);
  if (communication < 0.01 && bubble < 0.01) {
    text += compare("They wait alike: computing is", a.computing, b.computing);
  } else if (communication >= bubble) {
    text += compare("Waiting for communication is", a.exposed_communication, b.exposed_communication) + "; " +
            compare("standing idle", a.bubble, b.bubble);
  } else {
    text += compare("Standing idle is", a.bubble, b.bubble) + "; " +
            compare("waiting for communication", a.exposed_communication, b.exposed_communication);
  }
  return text;
}

}  // namespace yoke::cli
