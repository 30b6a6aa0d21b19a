// `yoke plan auto`: the best of data lanes, pipelines and mixes of both, judged by the simulator.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>

#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/auto_plan.h"
#include "yoke/cli/plan.h"
#include "yoke/cli/run/job_input.h"
#include "yoke/cli/table.h"
#include "yoke/cluster/cluster_file.h"
#include "yoke/profile/profile_folder.h"

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
  AutoPlanRequest request;
  std::string profiles;
};

base::Result<std::vector<ScheduleKind>> parse_schedules(const AutoOptions& options) {
  std::vector<ScheduleKind> kinds;
  for (const auto& name : options.schedules) {
    YOKE_TRY(const ScheduleKind kind, plan::parse_schedule_kind(name, {.field = "--schedule"}));
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  return kinds;
}

/// The options count, the job has its say in what they leave open.
base::Result<Wanted> gather(const AutoOptions& options) {
  Wanted wanted{.request = {}, .profiles = options.profiles};
  bool any_schedule = true;
  if (!options.job.empty()) {
    YOKE_TRY(const plan::Job job, load_job(options.job, {}));
    auto said = request_of(job);
    if (!said.ok()) {
      base::Error error = said.error();
      error.where.file = options.job;
      return error;
    }
    wanted.request = *std::move(said);
    any_schedule = job.parallel.schedule.empty() && job.parallel.mode != plan::ParallelMode::kData;
    if (wanted.profiles.empty()) wanted.profiles = job.profiles;
  }
  plan::AutoRequest& search = wanted.request.search;
  if (options.gbs) search.gbs = *options.gbs;
  if (options.lbs) wanted.request.local = {*options.lbs};
  if (options.optimizer_copies) search.optimizer_copies = *options.optimizer_copies;
  search.profiled_on = options.profiled_on;
  YOKE_TRY(auto named, parse_schedules(options));
  if (!named.empty()) {
    search.schedules = std::move(named);
  } else if (options.allow_stale && any_schedule) {
    search.schedules.insert(search.schedules.end(), {ScheduleKind::kTwoBw, ScheduleKind::kStash});
  }
  if (!options.latency.empty()) {
    const auto latency = base::parse_duration(options.latency);
    if (!latency.ok()) return option_error("--latency", latency.error().message);
    wanted.request.network.inter_latency = base::to_seconds(*latency);
  }
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
          {"source", profile::to_string(winner.plan.source)},
          {"why", why_it_won(result)},
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
  out << table.to_string() << "\n" << why_it_won(result) << "\n";
  if (result.candidates.front().plan.source == profile::Source::kEstimate) out << kFromEstimates << "\n";
  // The first clause says what binds.
  for (const auto& each : result.left_out) out << "left out: " << each.substr(0, each.find("; ")) << "\n";
  out << fmt::format("{} plans judged by the simulator in {}\n", result.candidates.size() + result.left_out.size(),
                     base::format_seconds(solve_seconds));
}

base::Status run_auto(const AutoOptions& options, Context& context) {
  YOKE_TRY(Wanted wanted, gather(options));
  std::string& model = wanted.request.search.model;
  YOKE_TRY(const cluster::Cluster cluster, cluster::load_cluster(options.cluster));
  ModelProfiles known;
  if (!wanted.profiles.empty()) {
    YOKE_TRY(known, load_model_profiles(wanted.profiles, context));
    if (model.empty() && known.profiles) model = known.profiles->model;
  }
  if (!options.profile.empty()) {
    YOKE_TRY(profile::LayerGraph graph, profile::load_layer_graph(options.profile));
    known.graphs = {std::move(graph)};
    if (model.empty()) model = std::filesystem::path(options.profile).stem().string();
  }
  const base::Instant started = context.clock.now();
  const auto solved = solve_auto_plan(cluster, known, wanted.request, context);
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
