// `yoke plan auto`: the best of data lanes, pipelines and mixes of both, judged by the simulator.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <ostream>

#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/inputs.h"
#include "yoke/cli/plan.h"
#include "yoke/cli/run/job_input.h"
#include "yoke/cli/table.h"
#include "yoke/cluster/cluster_file.h"
#include "yoke/plan/cost/iidp_model.h"
#include "yoke/plan/cost/layer_model.h"
#include "yoke/plan/job.h"
#include "yoke/plan/solve/auto/auto.h"
#include "yoke/profile/profile_folder.h"
#include "yoke/sim/judge.h"

namespace yoke::cli {
namespace {

using plan::ScheduleKind;

struct AutoOptions {
  std::string job;
  std::string profile;
  std::string profiles;
  std::string cluster;
  std::optional<int> gbs;
  std::optional<int> lbs;
  std::vector<std::string> schedules;
  bool allow_stale = false;
  std::string profiled_on;
  std::optional<int> optimizer_copies;
  std::string latency;
  std::string out;
};

/// What the options and the job file say together.
struct Wanted {
  plan::AutoRequest request;
  std::string profiles;
};

int optimizer_copies(const plan::OptimizerSpec& optimizer) {
  if (optimizer.name != plan::OptimizerName::kSgd) return 2;
  return optimizer.momentum > 0 ? 1 : 0;
}

base::Result<std::vector<ScheduleKind>> parse_schedules(const AutoOptions& options) {
  std::vector<ScheduleKind> kinds;
  for (const auto& name : options.schedules) {
    YOKE_TRY(const ScheduleKind kind, plan::parse_schedule_kind(name, {.field = "--schedule"}));
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  if (!kinds.empty()) return kinds;
  kinds = {ScheduleKind::kData, ScheduleKind::kFlush, ScheduleKind::kGpipe};
  if (options.allow_stale) kinds.insert(kinds.end(), {ScheduleKind::kTwoBw, ScheduleKind::kStash});
  return kinds;
}

/// The job's say in what the options leave open.
base::Status take_job(const AutoOptions& options, Wanted& wanted) {
  YOKE_TRY(const plan::Job job, load_job(options.job, {}));
  plan::AutoRequest& request = wanted.request;
  if (!options.gbs) {
    if (job.batch.global > std::numeric_limits<int>::max()) {
      return base::input_error(fmt::format("found {}, expected less than 2^31", job.batch.global),
                               {.file = options.job, .field = "batch.global"});
    }
    request.gbs = static_cast<int>(job.batch.global);
  }
  if (!options.lbs && job.batch.local.size() == 1) request.lbs = static_cast<int>(job.batch.local.front());
  if (!options.optimizer_copies) request.optimizer_copies = optimizer_copies(job.optimizer);
  if (job.parallel.sync == plan::SyncChoice::kOverlap) request.sync = plan::Sync::kOverlap;
  if (job.parallel.sync == plan::SyncChoice::kSequential) request.sync = plan::Sync::kSequential;
  if (wanted.profiles.empty()) wanted.profiles = job.profiles;
  request.model = job.model.name;
  if (!options.schedules.empty()) return {};
  auto& kinds = request.schedules;
  if (!job.parallel.schedule.empty()) {
    YOKE_TRY(const ScheduleKind kind,
             plan::parse_schedule_kind(job.parallel.schedule, {.file = options.job, .field = "parallel.schedule"}));
    kinds = {kind};
  } else if (job.parallel.mode == plan::ParallelMode::kData) {
    kinds = {ScheduleKind::kData};
  } else if (job.parallel.mode == plan::ParallelMode::kPipeline) {
    std::erase(kinds, ScheduleKind::kData);
  }
  return {};
}

base::Result<Wanted> gather(const AutoOptions& options) {
  Wanted wanted{.request = {.gbs = options.gbs.value_or(0),
                            .lbs = options.lbs,
                            .optimizer_copies = options.optimizer_copies.value_or(1),
                            .profiled_on = options.profiled_on},
                .profiles = options.profiles};
  YOKE_TRY(wanted.request.schedules, parse_schedules(options));
  if (!options.job.empty()) YOKE_CHECK(take_job(options, wanted));
  if (options.cluster.empty()) return option_error("--cluster", "found none, expected the cluster file to plan for");
  if (options.profile.empty() && wanted.profiles.empty()) {
    return option_error("--profile", "found none, expected a layer profile, --profiles FOLDER, or a job with profiles");
  }
  if (!options.gbs && options.job.empty()) return option_error("--gbs", "found none, expected the global batch size");
  if (options.optimizer_copies && (*options.optimizer_copies < 0 || *options.optimizer_copies > 16)) {
    return option_error("--optimizer-copies", fmt::format("found {}, expected 0 to 16", *options.optimizer_copies));
  }
  return wanted;
}

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

std::string explain(const plan::AutoResult& result) {
  const plan::Candidate& winner = result.candidates.front();
  const plan::Candidate* other = rival(result);
  if (other == nullptr) return fmt::format("{}: nothing else can run", winner.name);
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

Json to_json(const plan::AutoResult& result, double solve_seconds) {
  Json candidates = Json::array();
  for (const auto& each : result.candidates) {
    const auto& j = each.judgement;
    candidates.push_back({{"name", each.name},
                          {"lbs", each.plan.lbs},
                          {"workers", each.plan.workers()},
                          {"devices", each.plan.devices().size()},
                          {"step_seconds", j.step_seconds},
                          {"samples_per_second", static_cast<double>(each.plan.gbs) / j.step_seconds},
                          {"computing_share", j.computing},
                          {"exposed_communication_share", j.exposed_communication},
                          {"bubble_share", j.bubble},
                          {"peak_bytes", j.peak_bytes}});
  }
  const auto& winner = result.candidates.front();
  return {{"winner", winner.name},
          {"gbs", winner.plan.gbs},
          {"lbs", winner.plan.lbs},
          {"step_seconds", winner.judgement.step_seconds},
          {"samples_per_second", static_cast<double>(winner.plan.gbs) / winner.judgement.step_seconds},
          {"why", explain(result)},
          {"candidates", std::move(candidates)},
          {"left_out", result.left_out},
          {"solve_seconds", solve_seconds}};
}

void print(const plan::AutoResult& result, double solve_seconds, std::ostream& out) {
  using Align = Table::Align;
  Table table({{"plan"},
               {"devices", Align::kRight},
               {"lbs", Align::kRight},
               {"step", Align::kRight},
               {"samples/s", Align::kRight},
               {"computing", Align::kRight},
               {"communication", Align::kRight},
               {"bubble", Align::kRight},
               {"memory", Align::kRight},
               {"of the fastest"}});
  const double fastest = result.candidates.front().judgement.step_seconds;
  for (const auto& each : result.candidates) {
    const auto& j = each.judgement;
    const double part = fastest / j.step_seconds;
    table.add({each.name, std::to_string(each.plan.devices().size()), std::to_string(each.plan.lbs),
               base::format_seconds(j.step_seconds),
               fmt::format("{:.1f}", static_cast<double>(each.plan.gbs) / j.step_seconds), percent(j.computing),
               percent(j.exposed_communication), percent(j.bubble),
               j.peak_bytes > 0 ? base::format(base::Bytes{static_cast<std::int64_t>(j.peak_bytes)}) : "-",
               fmt::format("{:3.0f}% {}", part * 100, bar(part, 10))});
  }
  out << table.to_string() << "\n" << explain(result) << "\n";
  // The first clause says what binds.
  for (const auto& each : result.left_out) out << "left out: " << each.substr(0, each.find("; ")) << "\n";
  out << fmt::format("{} plans judged by the simulator in {}\n", result.candidates.size() + result.left_out.size(),
                     base::format_seconds(solve_seconds));
}

base::Status run_auto(const AutoOptions& options, Context& context) {
  YOKE_TRY(Wanted wanted, gather(options));
  plan::AutoRequest& request = wanted.request;
  sim::NetworkOptions network;
  if (!options.latency.empty()) {
    const auto latency = base::parse_duration(options.latency);
    if (!latency.ok()) return option_error("--latency", latency.error().message);
    network.inter_latency = base::to_seconds(*latency);
  }
  YOKE_TRY(const cluster::Cluster cluster, cluster::load_cluster(options.cluster));
  std::optional<profile::LayerGraph> graph;
  std::optional<profile::ProfileSet> profiles;
  if (!wanted.profiles.empty()) {
    YOKE_TRY(AnyProfile any, load_any_profile(wanted.profiles, context));
    graph = std::move(any.graph);
    profiles = std::move(any.profiles);
    if (request.model.empty() && profiles) request.model = profiles->model;
  }
  if (!options.profile.empty()) {
    YOKE_TRY(graph, profile::load_layer_graph(options.profile));
    if (request.model.empty()) request.model = std::filesystem::path(options.profile).stem().string();
  }
  const base::Instant started = context.clock.now();
  // Measured steps are better than sums of layers.
  std::optional<plan::IidpModel> measured;
  std::optional<plan::LayerModel> summed;
  plan::AutoInputs inputs{.cluster = cluster, .graph = graph ? &*graph : nullptr};
  if (profiles) {
    YOKE_TRY(measured, plan::IidpModel::make(cluster, *profiles));
    for (const auto& warning : measured->warnings()) context.log.warning("{}", warning);
    inputs.cost = &*measured;
    inputs.cost_name = "iidp";
  } else if (graph && request.lbs && *request.lbs >= 1) {
    auto made = plan::LayerModel::make(
        cluster, *graph,
        {.lbs = *request.lbs, .profiled_on = request.profiled_on, .optimizer_copies = request.optimizer_copies});
    if (made.ok()) {
      summed = *std::move(made);
      inputs.cost = &*summed;
      inputs.cost_name = "layers";
    } else if (made.error().kind != base::ErrorKind::kInfeasible ||
               request.schedules == std::vector{ScheduleKind::kData}) {
      return at_option(made.error(), {"--profile", "--profiled-on"});
    } else {
      inputs.no_cost = made.error().message;
    }
  }
  const sim::SimulatedJudge judge(cluster, inputs.graph,
                                  {.optimizer_copies = request.optimizer_copies, .profiled_on = request.profiled_on},
                                  network);
  const auto solved = plan::solve_auto(inputs, request, judge);
  if (!solved.ok()) return at_option(solved.error(), {"--gbs", "--lbs", "--schedule", "--profile", "--profiled-on"});
  const double solve_seconds = base::to_seconds(context.clock.now() - started);
  YOKE_CHECK(save_plan(solved->candidates.front().plan, options.out, context));
  if (context.json) {
    print_json(context, to_json(*solved, solve_seconds));
  } else {
    print(*solved, solve_seconds, context.out);
  }
  return {};
}

}  // namespace

void add_plan_auto(CLI::App& group, Action& chosen) {
  add_command<AutoOptions>(
      group, chosen, "auto", "the best of data lanes, pipelines and mixes of both",
      [](Arguments& command, AutoOptions& options) {
        command.option("--job", options.job, "job file: batch sizes, optimizer, profiles, schedule");
        command.option("--profile", options.profile, "layers: PipeDream graph.txt, layers.json or its folder");
        command.option("--profiles", options.profiles, "Yoke profile folder, or a JABAS or IIDP config JSON");
        command.option("--cluster", options.cluster, "cluster file");
        command.option("--gbs", options.gbs, "global batch size: samples of one update");
        command.option("--lbs", options.lbs, "local batch size: samples of one worker, and of the layer profile");
        command.option("--schedule", options.schedules,
                       "only these: data, gpipe, 1f1b-flush, 1f1b-stash, 2bw (default: those that keep the math)");
        command.flag("--allow-stale", options.allow_stale, "also 1f1b-stash and 2bw, which use older weights");
        command.option("--profiled-on", options.profiled_on, "device type of the layer profile (default: the fastest)");
        command.option("--optimizer-copies", options.optimizer_copies,
                       "numbers the optimizer keeps per weight: 0 SGD, 1 momentum, 2 Adam (default: the job's, or 1)");
        command.option("--latency", options.latency, "of a message between nodes, e.g. 50us (default: none)");
        command.option("--out", options.out, "write the best plan here");
      },
      run_auto);
}

}  // namespace yoke::cli
