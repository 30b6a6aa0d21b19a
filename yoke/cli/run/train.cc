// `yoke train`: one rank of a job, with its identity from whoever has started it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <ostream>

#include "yoke/base/files.h"
#include "yoke/base/trace.h"
#include "yoke/cli/command.h"
#include "yoke/cli/launch/environment.h"
#include "yoke/cli/launch/machine.h"
#include "yoke/cli/launch/reports.h"
#include "yoke/cli/launch/stop_signals.h"
#include "yoke/cli/run/job_input.h"
#include "yoke/cli/run/metrics_board.h"
#include "yoke/cli/run/metrics_server.h"
#include "yoke/cli/run/prepare.h"
#include "yoke/cli/run/rank_observer.h"
#include "yoke/cli/run/recorder.h"
#include "yoke/cli/run/rendezvous.h"
#include "yoke/cli/run/run_result.h"
#include "yoke/cli/run/same_inputs.h"
#include "yoke/cli/run/trace_files.h"
#include "yoke/cluster/cluster_file.h"
#include "yoke/comm/join.h"

namespace yoke::cli {
namespace {

using base::Deadline;
using base::Result;
using base::Status;

/// How long ranks wait for each other before training.
constexpr base::Duration kPatience = std::chrono::minutes(5);
/// How long rank 0 serves others that are not done with the store, and waits for their timelines.
constexpr base::Duration kFarewell = std::chrono::seconds(30);

std::string trace_key(int rank) {
  return fmt::format("run/trace/{}", rank);
}

/// The setup of a rank that `yoke run` has started: everything is in the run folder.
Result<RunSetup> managed_setup(const RunOptions& options, const ManagedRank& managed, const RankIdentity& identity) {
  RunSetup setup{.folder = options.run_dir, .resumes = options.resume};
  YOKE_TRY(setup.job, load_job(options.job, options.set));
  YOKE_TRY(const cluster::Cluster cluster, cluster::load_cluster(options.cluster));
  if (!managed.plan.empty()) {
    YOKE_TRY(setup.plan, plan::load_plan(managed.plan));
  }
  setup.devices = emulated_devices(cluster, usable_cores(), setup.plan ? &*setup.plan : nullptr);
  base::require(static_cast<int>(setup.devices.size()) == identity.size, "yoke run started a wrong number of ranks");
  for (auto& device : setup.devices) limit_memory(device, memory_share(identity.size));
  return setup;
}

/// One rank from its start to its end. Members are destroyed in reverse: the group before the store, MPI last.
class Train {
 public:
  Train(const RunOptions& options, base::Duration patience, RankIdentity identity, std::optional<ManagedRank> managed,
        Context& context)
      : options_(options),
        patience_in_training_(patience),
        identity_(std::move(identity)),
        managed_(std::move(managed)),
        context_(context),
        board_(job_name(options.job), identity_.size) {
    if (managed_) launcher_.emplace(managed_->report_fd);
  }

  Status run() {
    const Status status = train();
    if (!status.ok() && launcher_) launcher_->send(status.error());
    // Others may still have something to ask of the store.
    if (meeting_.server) {
      meeting_.store.reset();
      meeting_.server->drain(Deadline::in(kFarewell, context_.clock));
    }
    return status;
  }

 private:
  bool first() const { return identity_.rank == 0; }
  Deadline patience() const { return Deadline::in(kPatience, context_.clock); }

  Status train() {
    if (!managed_ && first() && options_.metrics_port) {
      YOKE_TRY(server_, MetricsServer::start(
                            *options_.metrics_port, [this] { return board_.to_text(); }, context_.clock));
      context_.log.info("metrics at {}", server_->url());
    }
    YOKE_TRY(meeting_, meet(identity_, !managed_, options_.backend == "mpi", patience(), context_.clock));
    YOKE_TRY(RunSetup setup, managed_ ? managed_setup(options_, *managed_, identity_) : common_setup());
    if (setup.plan && !stays(setup)) return {};
    comm::JoinOptions how{.name = "train", .rank = identity_.rank, .size = identity_.size, .backend = options_.backend};
    if (managed_ && options_.emulate_links) {
      YOKE_TRY(const cluster::Cluster cluster, cluster::load_cluster(options_.cluster));
      const auto& device = setup.devices.at(static_cast<std::size_t>(identity_.rank));
      YOKE_TRY(how.link, emulated_link(*cluster.find(device.id.node)));
    }
    engine::select_device(setup.devices.at(static_cast<std::size_t>(identity_.rank)));
    YOKE_TRY(auto group, comm::join(how, *meeting_.store, patience(), context_.clock));
    return train_with(setup, std::move(group));
  }

  /// A plan may leave devices out. Their ranks have nothing to do; the others are numbered anew.
  bool stays(RunSetup& setup) {
    const auto used = setup.plan->devices();
    const auto idle = [&](const engine::DeviceSpec& device) {
      return std::ranges::find(used, device.id) == used.end();
    };
    const auto own = setup.devices.begin() + identity_.rank;
    if (idle(*own)) {
      context_.log.info("the plan gives {} nothing to do: rank {} leaves", own->id.to_string(), identity_.rank);
      return false;
    }
    identity_.rank -= static_cast<int>(std::count_if(setup.devices.begin(), own, idle));
    std::erase_if(setup.devices, idle);
    identity_.size = static_cast<int>(setup.devices.size());
    return true;
  }

  /// Rank 0 serves the others and writes the run folder, and MPI's groups are of all ranks.
  Status check_idle(const RunSetup& setup) const {
    if (!setup.plan) return {};
    const auto used = setup.plan->devices();
    for (const auto& device : setup.devices) {
      if (std::ranges::find(used, device.id) != used.end()) continue;
      if (options_.backend == "mpi") {
        return option_error("--backend", fmt::format("found `mpi`, but the plan gives {} nothing to do; start no rank "
                                                     "for it, or take another backend",
                                                     device.id.to_string()));
      }
      if (device.id == setup.devices.front().id) {
        return option_error("--cluster", fmt::format("the plan gives {} nothing to do, but it is the device of rank 0, "
                                                     "which serves the others; start no rank for it",
                                                     device.id.to_string()));
      }
    }
    return {};
  }

  /// Under a foreign launcher: rank 0 prepares the run for all.
  Result<RunSetup> common_setup() {
    YOKE_TRY(const auto places, tell_place(*meeting_.store, identity_, this_place(), patience()));
    const Status same = compare_inputs(*meeting_.store, identity_, read_inputs(options_), patience());
    if (!first()) {
      YOKE_CHECK(same);
      return receive_setup(*meeting_.store, patience());
    }
    Result<RunSetup> setup = same.ok() ? prepare(places) : same.error();
    YOKE_CHECK(share_setup(*meeting_.store, setup, patience()));
    return setup;
  }

  Result<RunSetup> prepare(const std::vector<RankPlace>& places) {
    const bool given = !options_.cluster.empty();
    YOKE_TRY(const cluster::Cluster cluster, given ? cluster::load_cluster(options_.cluster) : cluster_of(places));
    RunSetup setup{.origin = time_of_day()};
    YOKE_TRY(setup.devices, placed_devices(cluster, given, places));
    YOKE_TRY(PreparedRun prepared, prepare_run(options_, cluster, context_));
    setup.folder = prepared.folder.path();
    setup.resumes = prepared.folder.resumes();
    setup.job = std::move(prepared.job);
    if (prepared.plan) {
      setup.plan = std::move(prepared.plan->plan);
      equal_split_step_seconds_ = prepared.plan->equal_split_step_seconds;
    }
    YOKE_CHECK(check_idle(setup));
    folder_.emplace(std::move(prepared.folder));
    if (options_.trace) YOKE_CHECK(prepare_traces(setup.folder));
    context_.log.info("{} ranks in {}", identity_.size, setup.folder);
    return setup;
  }

  Status train_with(const RunSetup& setup, std::unique_ptr<comm::Group> group) {
    const StopSignals signals(StopSignals::Second::kEnds);
    Recorder recorder(setup.folder, setup.resumes);
    EventLog events(setup.folder, identity_.rank);
    RankObserver observer({.recorder = first() ? &recorder : nullptr,
                           .events = first() ? nullptr : &events,
                           .launcher = launcher_ ? &*launcher_ : nullptr,
                           .board = server_ ? &board_ : nullptr},
                          signals, context_.log);
    base::Trace trace;
    engine::RankOptions options{.job = setup.job, .plan = setup.plan, .devices = setup.devices};
    options.checkpoints = base::join_path(setup.folder, "checkpoints");
    options.resume = setup.resumes;
    options.patience = patience_in_training_;
    if (options_.trace) options.trace = &trace;
    options.trace_origin = trace_origin(setup);

    const base::Instant began = context_.clock.now();
    const auto result = engine::train_rank(options, std::move(group), observer, context_.clock);
    const double wall_seconds = base::to_seconds(context_.clock.now() - began);
    if (options_.trace) keep_trace(setup, trace);
    if (!result.ok()) return result.error();
    if (observer.failure()) return *observer.failure();
    return result->interrupted ? interrupted(setup, *result) : finish(setup, recorder, *result, wall_seconds);
  }

  /// All ranks count from the same moment: on one host by its steady clock, across hosts by the time of day.
  base::Instant trace_origin(const RunSetup& setup) const {
    if (managed_) return base::Instant(std::chrono::nanoseconds(managed_->origin_ns));
    return context_.clock.now() - base::from_seconds(time_of_day() - setup.origin);
  }

  void keep_trace(const RunSetup& setup, const base::Trace& trace) {
    const auto& device = setup.devices.at(static_cast<std::size_t>(identity_.rank));
    Status kept = write_trace(setup.folder, identity_.rank, device, trace);
    if (!managed_) {
      if (kept.ok()) kept = meeting_.store->set(trace_key(identity_.rank), "", patience());
      if (kept.ok() && first()) kept = merge(setup);
    }
    if (!kept.ok()) context_.log.warning("the timeline is lost: {}", kept.error().to_string());
  }

  Status merge(const RunSetup& setup) {
    const Deadline deadline = Deadline::in(kFarewell, context_.clock);
    // A rank that does not come is missing from the timeline, which is said.
    for (int rank = 0; rank < identity_.size; ++rank) (void)meeting_.store->get(trace_key(rank), deadline).ok();
    YOKE_TRY(const auto absent, merge_trace_files(setup.folder, identity_.size));
    if (!absent.empty()) context_.log.warning("trace.json lacks the ranks {}", fmt::join(absent, ", "));
    return {};
  }

  Status interrupted(const RunSetup& setup, const engine::RankResult& result) {
    context_.exit_code = kExitInterrupted;
    if (managed_ || !first()) return {};
    if (context_.json) {
      print_json(context_,
                 {{"interrupted", true}, {"saved", true}, {"steps", result.steps}, {"run_dir", setup.folder}});
    } else {
      context_.out << fmt::format("interrupted at step {}: saved; --run-dir {} --resume goes on\n", result.steps,
                                  setup.folder);
    }
    return {};
  }

  Status finish(const RunSetup& setup, Recorder& recorder, const engine::RankResult& rank, double wall_seconds) {
    if (!first()) return {};
    const auto plan_source = setup.plan ? setup.plan->source : profile::Source::kMeasured;
    YOKE_TRY(const RunResult result, recorder.finish(rank, wall_seconds, equal_split_step_seconds_, plan_source));
    if (managed_) return {};
    if (context_.json) {
      base::Json json = to_json(result);
      json["run_dir"] = setup.folder;
      print_json(context_, json);
    } else {
      context_.out << summarize(result, setup.folder);
    }
    return {};
  }

  const RunOptions& options_;
  const base::Duration patience_in_training_;
  RankIdentity identity_;
  const std::optional<ManagedRank> managed_;
  Context& context_;
  std::optional<ReportSender> launcher_;
  MetricsBoard board_;
  std::unique_ptr<MetricsServer> server_;
  Meeting meeting_;
  std::optional<RunFolder> folder_;  // rank 0 under a foreign launcher owns the run
  std::optional<double> equal_split_step_seconds_;
};

Status run_train(const RunOptions& options, Context& context) {
  YOKE_TRY(RankIdentity identity, identify_rank(process_environment));
  YOKE_TRY(std::optional<ManagedRank> managed, managed_rank(process_environment));
  std::vector<std::string> backends = launched_backends();
  if (identity.launcher == Launcher::kMpirun) backends.emplace_back("mpi");
  YOKE_CHECK(check_backend(options.backend, backends));
  YOKE_TRY(const base::Duration patience, options.wait());
  return Train(options, patience, std::move(identity), std::move(managed), context).run();
}

}  // namespace

void add_train(CLI::App& app, Action& chosen) {
  add_command<RunOptions>(
      app, chosen, "train", "one rank of a job, under torchrun, mpirun or srun",
      [](Arguments& command, RunOptions& options) {
        options.declare(command);
        command.hidden_flag("--emulate-links", options.emulate_links);  // from `yoke run`
      },
      run_train);
}

}  // namespace yoke::cli
