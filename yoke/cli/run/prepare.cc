#include "yoke/cli/run/prepare.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/auto_plan.h"
#include "yoke/cli/inputs.h"
#include "yoke/cli/plan.h"
#include "yoke/cli/run/job_input.h"
#include "yoke/cli/run/recorder.h"
#include "yoke/cluster/cluster_file.h"
#include "yoke/comm/join.h"
#include "yoke/plan/cost/choose_cost.h"
#include "yoke/plan/cost/iidp_model.h"
#include "yoke/plan/solve/batch/batch.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using base::Result;
using base::Status;

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("{:%Y-%m-%d}", local);
}

/// By what was foreseen when the plan was made, maybe for other devices than these.
Status check_memory(const plan::Plan& plan, const cluster::Cluster& cluster, const std::string& path) {
  for (std::size_t lane = 0; lane < plan.pipeline_lanes.size(); ++lane) {
    const auto& stages = plan.pipeline_lanes[lane].stages;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const double needed = stages[s].predicted ? stages[s].predicted->memory_bytes : 0;
      for (const auto& device : stages[s].devices) {
        const auto& memory = cluster.find(device.node)->memory;
        if (!memory || needed <= static_cast<double>(memory->count)) continue;
        return base::infeasible_error(
            fmt::format("stage {} needs {} on each device, but {} has {}; plan again for this cluster, e.g. with "
                        "`yoke plan auto`",
                        s, base::format(base::Bytes{static_cast<std::int64_t>(needed)}),
                        base::quote(device.to_string()), base::format(*memory)),
            {.file = path, .field = fmt::format("pipeline_lanes[{}].stages[{}].predicted.memory_bytes", lane, s)});
      }
    }
  }
  return {};
}

Result<JobPlan> load_plan_file(const std::string& path, const cluster::Cluster& cluster) {
  YOKE_TRY(plan::Plan plan, plan::load_plan(path));
  const auto known = cluster.devices();
  for (const auto& device : plan.devices()) {
    if (std::ranges::find(known, device) != known.end()) continue;
    std::vector<std::string> names;
    for (const auto& id : known) names.push_back(id.to_string());
    if (names.size() > 8) names.resize(8);
    return base::input_error(
        fmt::format("found the device {}, which the cluster has not ({}{}); give its cluster with --cluster",
                    base::quote(device.to_string()), base::join_words(names),
                    known.size() > names.size() ? ", ..." : ""),
        {.file = path});
  }
  YOKE_CHECK(check_memory(plan, cluster, path));
  return JobPlan{
      .plan = std::move(plan), .source = "from " + path, .why = "", .equal_split_step_seconds = std::nullopt};
}

/// Faults of the solver's request, at the keys of the job that it was made of.
base::Error at_job_key(base::Error error) {
  if (!error.where.file.empty()) return error;
  if (error.where.field == "gbs") error.where.field = "batch.global";
  if (error.where.field == "lbs") error.where.field = "batch.local";
  if (error.where.field == "schedule") error.where.field = "parallel.schedule";
  return error;
}

bool allows_data_lanes(const AutoPlanRequest& request) {
  const auto& kinds = request.search.schedules;
  return std::ranges::find(kinds, plan::ScheduleKind::kData) != kinds.end();
}

bool has_layer_profile(const plan::Job& job) {
  return !job.profiles.empty() && base::exists(base::join_path(job.profiles, "layers.json"));
}

/// For a job that wants pipelines and nothing else.
base::Error no_layer_profile(const plan::Job& job) {
  const bool by_mode = job.parallel.mode == plan::ParallelMode::kPipeline;
  const std::string found = by_mode ? "pipeline" : job.parallel.schedule;
  const std::string lbs = job.batch.local.empty() ? "N" : std::to_string(job.batch.local.front());
  return base::input_error(
      fmt::format("found `{}`, but {}, so that no pipeline can be planned; `yoke profile layers --model {} --lbs {} "
                  "--out DIR` makes a layer profile, then set `profiles: DIR`; or name a plan file in `parallel.plan`",
                  found,
                  job.profiles.empty() ? "neither `profiles` nor `parallel.plan`"
                                       : fmt::format("no layers.json in {}", base::quote(job.profiles, 200)),
                  job.model.name, lbs),
      {.field = by_mode ? "parallel.mode" : "parallel.schedule"});
}

/// Everything competes that the job allows.
Result<JobPlan> solve_any(const plan::Job& job, const AutoPlanRequest& request, const cluster::Cluster& cluster,
                          Context& context) {
  YOKE_TRY(const ModelProfiles known, load_model_profiles(job.profiles, context));
  const auto solved = solve_auto_plan(cluster, known, request, context);
  if (!solved.ok()) return at_job_key(solved.error());
  const plan::Candidate& winner = solved->candidates.front();
  JobPlan planned{.plan = winner.plan,
                  .source = fmt::format("solved from {}", job.profiles),
                  .why = why_it_won(*solved),
                  .equal_split_step_seconds = std::nullopt};
  if (winner.solution) planned.equal_split_step_seconds = equal_split_seconds(*winner.solution);
  for (const auto& each : solved->left_out) context.log.debug("left out: {}", each);
  return planned;
}

Result<JobPlan> solve_data_lanes(const plan::Job& job, const cluster::Cluster& given, Context& context) {
  YOKE_TRY(const profile::ProfileSet profiles, profile::load_profiles(job.profiles));
  YOKE_TRY(const cluster::Cluster cluster, with_profiled_bandwidths(given, profiles.comm, context));
  YOKE_TRY(const plan::ChosenCost chosen, plan::choose_cost("auto", cluster, profiles));
  const plan::BatchCost& cost = *chosen.model;
  for (const auto& warning : chosen.warnings) context.log.warning("{}", warning);
  plan::BatchRequest request{.gbs = static_cast<int>(job.batch.global)};
  if (job.parallel.sync == plan::SyncChoice::kOverlap) request.sync = plan::Sync::kOverlap;
  if (job.parallel.sync == plan::SyncChoice::kSequential) request.sync = plan::Sync::kSequential;

  std::optional<plan::BatchSolution> best;
  std::optional<base::Error> fault;
  std::vector<std::optional<int>> choices;
  for (const auto lbs : job.batch.local) choices.emplace_back(static_cast<int>(lbs));
  if (choices.empty()) choices.emplace_back();
  for (const auto& lbs : choices) {
    request.lbs = lbs;
    auto solved = plan::solve_batch(cost, request);
    if (!solved.ok()) {
      if (!fault) fault = solved.error();
      continue;
    }
    if (!best || solved->step_seconds < best->step_seconds) best = *std::move(solved);
  }
  if (!best) return at_job_key(*fault);
  JobPlan planned{.plan = to_plan(*best, profiles.model, chosen.name),
                  .source = "solved from " + job.profiles,
                  .why = "sync: " + (request.sync ? "as the job says" : plan::explain_sync(profiles.buckets)),
                  .equal_split_step_seconds = equal_split_seconds(*best)};
  planned.plan.source = profiles.source();
  return planned;
}

Result<JobPlan> solve_job(const plan::Job& job, const AutoPlanRequest& request, const cluster::Cluster& cluster,
                          Context& context) {
  if (!base::is_folder(job.profiles)) {
    return base::input_error(fmt::format("found no folder {}, expected profiles of the model; leave the key out and "
                                         "the first steps are measured instead",
                                         base::quote(job.profiles)),
                             {.field = "profiles"});
  }
  if (!allows_data_lanes(request)) {
    if (!has_layer_profile(job)) return no_layer_profile(job);
    return solve_any(job, request, cluster, context);
  }
  // A batch that adapts deals its workers to data lanes again and again.
  const bool any = has_layer_profile(job) && !job.batch.adapt;
  return any ? solve_any(job, request, cluster, context) : solve_data_lanes(job, cluster, context);
}

bool keeps_the_plan(const std::vector<JobChange>& changes, const plan::Job& job) {
  return !job.batch.adapt && std::ranges::none_of(changes, [](const JobChange& change) {
    return change.key.starts_with("batch.") || change.key.starts_with("parallel.") || change.key == "profiles" ||
           change.key == "precision";
  });
}

std::string describe(const JobPlan& plan) {
  std::string text = fmt::format("plan {}{}{}", plan.source, plan.why.empty() ? "" : ": ", plan.why);
  if (plan.plan.source == profile::Source::kEstimate) text += fmt::format("; {}", kFromEstimates);
  return text;
}

Status note_start(const PreparedRun& run, const std::vector<JobChange>& changes) {
  EventLog events(run.folder.path(), std::nullopt);
  YOKE_CHECK(events.add({.kind = "start", .detail = run.folder.resumes() ? "the run goes on" : "the run begins"}));
  for (const auto& change : changes) {
    YOKE_CHECK(events.add(
        {.kind = "job", .detail = fmt::format("{} is now {}, was {}", change.key, change.after, change.before)}));
  }
  if (!run.plan) return {};
  engine::Event event{.kind = "plan", .detail = describe(*run.plan)};
  const plan::Plan& plan = run.plan->plan;
  event.values = {{"gbs", static_cast<double>(plan.gbs)}, {"lbs", plan.lbs}, {"step_seconds", plan.step_seconds}};
  if (run.plan->equal_split_step_seconds) {
    event.values.emplace_back("equal_split_step_seconds", *run.plan->equal_split_step_seconds);
  }
  return events.add(event);
}

}  // namespace

void RunOptions::declare(Arguments& command) {
  command.required("job", job, "job file");
  command.option("--cluster", cluster, "cluster file, JABAS cluster_info JSON or MPI hostfile (default: this machine)");
  command.repeated("--set", set, "key=value: changes the job, e.g. optimizer.lr=0.05; may be given again");
  command.option("--run-dir", run_dir, "run folder (default: runs/<job>-<date>-<n>)");
  command.flag("--resume", resume, "go on with the run in the folder, at the sample where it stopped");
  command.flag("--trace", trace, "write trace.json, a Chrome timeline of all ranks");
  command.option("--metrics-port", metrics_port, "serve Prometheus metrics on this port of 127.0.0.1; 0: a free one");
  command.option("--backend", backend, "how ranks talk: auto, shm or gloo; nccl where it was built in");
  command.option("--patience", patience,
                 "longest wait of a rank for the others, e.g. 30s; must be above a step's time");
}

Result<base::Duration> RunOptions::wait() const {
  auto parsed = base::parse_duration(patience);
  if (!parsed.ok()) return option_error("--patience", parsed.error().message);
  if (*parsed < std::chrono::seconds(1) || *parsed > std::chrono::hours(24)) {
    return option_error("--patience", fmt::format("found {}, expected 1s to 1d", base::quote(patience)));
  }
  return parsed;
}

Result<std::optional<JobPlan>> plan_job(const plan::Job& job, const cluster::Cluster& cluster, Context& context) {
  std::optional<JobPlan> plan;
  if (!job.parallel.plan.empty()) {
    YOKE_TRY(plan, load_plan_file(job.parallel.plan, cluster));
    return plan;
  }
  YOKE_TRY(const AutoPlanRequest request, request_of(job));
  if (!job.profiles.empty()) {
    YOKE_TRY(plan, solve_job(job, request, cluster, context));
  } else if (!allows_data_lanes(request)) {
    return no_layer_profile(job);
  }
  return plan;
}

Result<PreparedRun> prepare_run(const RunOptions& options, const cluster::Cluster& cluster, Context& context) {
  YOKE_TRY(plan::Job job, load_job(options.job, options.set));
  YOKE_TRY(auto plan, plan_job(job, cluster, context));
  YOKE_TRY(
      RunFolder folder,
      RunFolder::open(
          {.path = options.run_dir, .job_name = job_name(options.job), .date = today(), .resume = options.resume}));
  YOKE_TRY(const auto changes, folder.put_job(job));
  const std::string cluster_file = folder.file("cluster.yaml");
  const std::string plan_file = folder.file("plan.json");
  if (!plan && folder.resumes() && base::exists(plan_file) && keeps_the_plan(changes, job)) {
    const auto before = cluster::load_cluster(cluster_file);
    if (before.ok() && *before == cluster) {
      YOKE_TRY(plan, load_plan_file(plan_file, cluster));
      plan->source = "kept from before";
    }
  }
  YOKE_CHECK(cluster::save_cluster(cluster_file, cluster));
  if (plan) YOKE_CHECK(base::publish_file(plan_file, plan::to_json(plan->plan)));
  if (job.batch.adapt || job.scale) {
    context.log.warning(
        "`{}` is read and checked, but batches do not adapt and clusters do not change while a job trains yet",
        job.batch.adapt ? "batch.adapt" : "scale");
  }
  PreparedRun run{.job = std::move(job), .folder = std::move(folder), .plan = std::move(plan)};
  YOKE_CHECK(note_start(run, changes));
  for (const auto& change : changes) {
    context.log.info("{} is now {}, was {}", change.key, change.after, change.before);
  }
  if (run.plan && run.plan->plan.step_seconds > 0) {
    context.log.info("{}; predicted: {} a step", describe(*run.plan),
                     base::format_seconds(run.plan->plan.step_seconds));
  }
  return run;
}

std::vector<std::string> launched_backends() {
  std::vector<std::string> names{"auto", "shm", "gloo"};
  for (const auto& backend : comm::list_backends()) {
    if (backend.name == "nccl" && backend.available) names.push_back(backend.name);
  }
  return names;
}

Status check_backend(const std::string& backend, const std::vector<std::string>& names) {
  if (std::ranges::find(names, backend) != names.end()) return {};
  return option_error("--backend", fmt::format("found {}, expected {}{}", base::quote(backend),
                                               base::join_words(names, "or"), base::did_you_mean(backend, names)));
}

}  // namespace yoke::cli
