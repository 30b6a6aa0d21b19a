// `yoke run`: plans, starts one process per device, shows how it goes, and tells in the end what came of it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <ostream>

#include "yoke/base/files.h"
#include "yoke/base/progress.h"
#include "yoke/base/text.h"
#include "yoke/base/trace.h"
#include "yoke/cli/command.h"
#include "yoke/cli/launch/machine.h"
#include "yoke/cli/launch/processes.h"
#include "yoke/cli/launch/reports.h"
#include "yoke/cli/launch/stop_signals.h"
#include "yoke/cli/run/devices.h"
#include "yoke/cli/run/failure.h"
#include "yoke/cli/run/job_input.h"
#include "yoke/cli/run/metrics_board.h"
#include "yoke/cli/run/metrics_server.h"
#include "yoke/cli/run/prepare.h"
#include "yoke/cli/run/recorder.h"
#include "yoke/cli/run/run_folder.h"
#include "yoke/cli/run/run_result.h"
#include "yoke/cli/run/trace_files.h"
#include "yoke/cli/terminal.h"
#include "yoke/cluster/cluster_file.h"
#include "yoke/comm/store/tcp_store.h"

namespace yoke::cli {
namespace {

using base::Result;
using base::Status;

/// The live line, and the log lines between.
class Display {
 public:
  Display(std::string label, Context& context) : label_(std::move(label)), context_(context) {}

  void show(const engine::StepReport& step) {
    if (!progress_) begin(step);
    progress_->set_total(step.total_steps);
    note_ = fmt::format("loss {:.4g}, {:.1f} samples/s", step.loss, step.samples_per_second);
    progress_->update(step.step, note_);
  }
  void show(const engine::Event& event) {
    const auto level = event.kind == "checkpoint" ? base::LogLevel::kDebug : base::LogLevel::kInfo;
    if (!context_.log.enabled(level)) return;
    if (progress_) progress_->clear();
    context_.log.info("{}: {}", event.kind, event.detail);
  }
  void finish() {
    if (progress_) progress_->finish(note_);
  }

 private:
  void begin(const engine::StepReport& first) {
    start_progress(progress_,
                   {.label = label_,
                    .total = first.total_steps,
                    .start = first.step},  // its time is not in the rate: it began before
                   context_);
  }

  const std::string label_;
  Context& context_;
  std::optional<base::Progress> progress_;
  std::string note_;
};

/// One `yoke run` from the first process to the last.
class Run {
 public:
  Run(const RunOptions& options, cluster::Cluster cluster, MetricsBoard& board, PreparedRun prepared, Context& context)
      : options_(options),
        cluster_(std::move(cluster)),
        board_(board),
        prepared_(std::move(prepared)),
        context_(context),
        display_(job_name(options.job), context) {
    facts_.devices = emulated_devices(cluster_, usable_cores(), prepared_.plan ? &prepared_.plan->plan : nullptr);
    facts_.host = host_name();
    facts_.folder = prepared_.folder.path();
  }

  Status run() {
    YOKE_TRY(const auto store, comm::TcpStoreServer::start("127.0.0.1"));
    if (options_.trace) YOKE_CHECK(prepare_traces(facts_.folder));
    const StopSignals signals(StopSignals::Second::kCounts);
    const LaunchHooks hooks{.report = [this](int rank, std::string_view line) { take(rank, line); },
                            .stop_requests = [&] { return heed(signals.count()); }};
    context_.log.info("{} {} in {}", facts_.devices.size(), facts_.devices.size() == 1 ? "rank" : "ranks",
                      as_typed(facts_.folder));
    YOKE_TRY(const LaunchOutcome outcome, run_ranks(commands(store->port()), LaunchTimes{}, hooks, context_.clock));
    display_.finish();
    if (options_.trace) merge();
    if (const RankEnd* cause = first_failure(outcome, facts_)) return fail(outcome, *cause);
    const bool all_done = std::ranges::all_of(outcome.ends, [](const RankEnd& end) { return end.ok(); });
    return all_done ? succeed() : interrupted(outcome);
  }

 private:
  std::vector<RankCommand> commands(std::uint16_t port) const {
    const std::string& folder = facts_.folder;
    std::vector<std::string> argv{context_.program,
                                  "train",
                                  base::join_path(folder, "job.yaml"),
                                  "--cluster",
                                  base::join_path(folder, "cluster.yaml"),
                                  "--run-dir",
                                  folder,
                                  "--backend",
                                  options_.backend,
                                  "--patience",
                                  options_.patience};
    if (prepared_.folder.resumes()) argv.emplace_back("--resume");
    if (options_.trace) argv.emplace_back("--trace");
    if (options_.emulate_links) argv.emplace_back("--emulate-links");
    if (context_.log.enabled(base::LogLevel::kDebug)) argv.insert(argv.end(), {"--log-level", "debug"});
    const auto origin = context_.clock.now().time_since_epoch().count();
    std::vector<RankCommand> ranks;
    for (std::size_t rank = 0; rank < facts_.devices.size(); ++rank) {
      RankCommand command{.argv = argv, .log = base::join_path(folder, fmt::format("logs/rank-{}.log", rank))};
      command.environment = {fmt::format("YOKE_RANK={}", rank),
                             fmt::format("YOKE_SIZE={}", facts_.devices.size()),
                             fmt::format("YOKE_LOCAL_RANK={}", rank),
                             fmt::format("YOKE_LOCAL_SIZE={}", facts_.devices.size()),
                             fmt::format("YOKE_STORE=127.0.0.1:{}", port),
                             fmt::format("YOKE_REPORT_FD={}", kReportFd),
                             fmt::format("YOKE_TRACE_ORIGIN={}", origin),
                             "YOKE_PLAN=" + (prepared_.plan ? base::join_path(folder, "plan.json") : "")};
      ranks.push_back(std::move(command));
    }
    return ranks;
  }

  void take(int rank, std::string_view line) {
    const auto report = parse_report(line);
    if (!report.ok()) {
      context_.log.warning("rank {}: {}", rank, report.error().to_string());
      return;
    }
    if (const auto* step = std::get_if<engine::StepReport>(&*report)) {
      facts_.step = step->step;
      board_.put(*step);
      display_.show(*step);
    } else if (const auto* event = std::get_if<engine::Event>(&*report)) {
      board_.put(*event);
      display_.show(*event);
    } else {
      facts_.errors.emplace(rank, std::get<base::Error>(*report));
    }
  }

  int heed(int requests) {
    if (requests > 0 && requests_ == 0) {
      display_.show(engine::Event{.kind = "stop", .detail = "all ranks save and leave; once more kills them"});
    }
    return requests_ = requests;
  }

  void merge() {
    const auto merged = merge_trace_files(facts_.folder, static_cast<int>(facts_.devices.size()));
    if (!merged.ok()) {
      context_.log.warning("no trace.json: {}", merged.error().to_string());
    } else if (!merged->empty()) {
      context_.log.warning("trace.json lacks the ranks {}", fmt::join(*merged, ", "));
    }
  }

  Status fail(const LaunchOutcome& outcome, const RankEnd& cause) {
    const base::Error error = failure_of(cause, facts_);
    const bool bad_input = error.kind == base::ErrorKind::kInput || error.kind == base::ErrorKind::kInfeasible;
    if (!bad_input || !facts_.errors.contains(cause.rank)) {
      for (const auto& line : failure_report(outcome, cause, facts_)) context_.log.error("{}", line);
    }
    EventLog events(facts_.folder, std::nullopt);
    const Status noted = events.add({.kind = "failure", .detail = error.to_string(), .step = facts_.step});
    if (!noted.ok()) context_.log.warning("{}", noted.error().to_string());
    return error;
  }

  Status interrupted(const LaunchOutcome& outcome) {
    const bool saved = std::ranges::all_of(
        outcome.ends, [](const RankEnd& end) { return end.ok() || end.exit_code == kExitInterrupted; });
    const std::string how =
        saved ? "saved; the run can go on" : "killed before it could save; the newest checkpoint stays";
    EventLog events(facts_.folder, std::nullopt);
    YOKE_CHECK(events.add({.kind = "interrupted", .detail = how, .step = facts_.step}));
    context_.exit_code = kExitInterrupted;
    if (context_.json) {
      print_json(context_,
                 {{"interrupted", true}, {"saved", saved}, {"steps", facts_.step}, {"run_dir", facts_.folder}});
    } else {
      context_.out << fmt::format("interrupted at step {}: {}\n`yoke run {} --run-dir {} --resume` goes on\n",
                                  facts_.step, how, options_.job, as_typed(facts_.folder));
    }
    return {};
  }

  Status succeed() {
    const std::string file = base::join_path(facts_.folder, "result.json");
    YOKE_TRY(RunResult result, load_result(file));
    if (!result.equal_split_step_seconds && prepared_.plan && prepared_.plan->equal_split_step_seconds) {
      result.equal_split_step_seconds = prepared_.plan->equal_split_step_seconds;
      YOKE_CHECK(save_result(file, result));
    }
    if (context_.json) {
      base::Json json = to_json(result);
      json["run_dir"] = facts_.folder;
      print_json(context_, json);
    } else {
      context_.out << summarize(result, as_typed(facts_.folder));
    }
    return {};
  }

  const RunOptions& options_;
  const cluster::Cluster cluster_;
  MetricsBoard& board_;
  const PreparedRun prepared_;
  Context& context_;
  Display display_;
  RunFacts facts_;
  int requests_ = 0;
};

Status run_job(const RunOptions& options, Context& context) {
  YOKE_CHECK(check_backend(options.backend, launched_backends()));
  YOKE_CHECK(options.wait());
  if (context.program.empty()) {
    return base::peer_error("cannot find this program's own file (/proc/self/exe) to start the ranks with");
  }
  cluster::Cluster cluster = this_machine();
  if (!options.cluster.empty()) {
    YOKE_TRY(cluster, cluster::load_cluster(options.cluster));
  }
  if (const auto elsewhere = nodes_elsewhere(cluster); !elsewhere.empty()) {
    const std::string rest = fmt::format("{} --cluster {}", options.job, options.cluster);
    return option_error("--cluster",
                        fmt::format("found nodes on other hosts ({}), expected this machine only; start the ranks with "
                                    "`{}`, or with srun or torchrun (docs/running.md)",
                                    base::join_words(elsewhere), mpirun_command(cluster, rest)));
  }
  if (options.emulate_links) {
    for (const auto& node : cluster.nodes()) YOKE_CHECK(emulated_link(node));
  }
  MetricsBoard board(job_name(options.job), cluster.device_count());
  std::unique_ptr<MetricsServer> server;
  if (options.metrics_port) {
    YOKE_TRY(server, MetricsServer::start(
                         *options.metrics_port, [&board] { return board.to_text(); }, context.clock));
    context.log.info("metrics at {}", server->url());
  }
  YOKE_TRY(PreparedRun prepared, prepare_run(options, cluster, context));
  return Run(options, std::move(cluster), board, std::move(prepared), context).run();
}

}  // namespace

void add_run(CLI::App& app, Action& chosen) {
  add_command<RunOptions>(
      app, chosen, "run", "train a job on this machine: plan, start one process per device, watch",
      [](Arguments& command, RunOptions& options) {
        options.declare(command);
        command.flag("--emulate-links", options.emulate_links,
                     "messages take as long as the cluster file's inter_bandwidth says; nodes of one device each");
      },
      run_job);
}

}  // namespace yoke::cli
