#include "yoke/cli/profile_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <ostream>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/launch/environment.h"
#include "yoke/cli/launch/machine.h"
#include "yoke/cli/launch/processes.h"
#include "yoke/cli/launch/reports.h"
#include "yoke/cli/launch/stop_signals.h"
#include "yoke/cli/link_survey.h"
#include "yoke/cli/run/devices.h"
#include "yoke/cli/run/rendezvous.h"
#include "yoke/cli/table.h"
#include "yoke/cluster/cluster_file.h"
#include "yoke/comm/join.h"
#include "yoke/comm/probe/link_probe.h"
#include "yoke/comm/store/tcp_store.h"
#include "yoke/profile/jabas/profile_files.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using base::Deadline;
using base::Result;
using base::Status;
using profile::LinkOp;
using profile::LinkProfile;
using profile::LinkScope;

constexpr base::Duration kPatience = std::chrono::seconds(60);
constexpr const char* kThreads = "local";

Result<std::vector<std::size_t>> parse_sizes(const std::vector<std::string>& texts) {
  if (texts.empty()) return comm::usual_probe_sizes();
  std::vector<std::size_t> sizes;
  for (const auto& text : texts) {
    const auto bytes = base::parse_bytes(text);
    if (!bytes.ok()) return option_error("--sizes", bytes.error().message);
    if (bytes->count < 4 || bytes->count > 4'000'000'000 || bytes->count % 4 != 0) {
      return option_error("--sizes",
                          fmt::format("found {}, expected a multiple of 4 from 4 to 4e9 bytes", base::quote(text)));
    }
    sizes.push_back(static_cast<std::size_t>(bytes->count));
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.size() < 2) return option_error("--sizes", "found one size, expected at least two to draw a line through");
  return sizes;
}

Result<std::optional<base::Bandwidth>> parse_nominal(const std::string& option, const std::string& text) {
  if (text.empty()) return std::optional<base::Bandwidth>();
  const auto bandwidth = base::parse_bandwidth(text);
  if (!bandwidth.ok()) return option_error(option, bandwidth.error().message);
  if (bandwidth->bytes_per_s <= 0) return option_error(option, "found 0, expected a bandwidth > 0");
  return std::optional(*bandwidth);
}

Status check_backends(const std::vector<std::string>& backends, const std::vector<std::string>& allowed) {
  for (const auto& backend : backends) {
    if (std::ranges::find(allowed, backend) != allowed.end()) continue;
    return option_error(
        "--backends", fmt::format("found {}, expected {} here{}", base::quote(backend), base::join_words(allowed, "or"),
                                  base::did_you_mean(backend, allowed)));
  }
  return {};
}

bool has_backend(std::string_view name) {
  return std::ranges::any_of(comm::list_backends(),
                             [&](const comm::BackendInfo& info) { return info.name == name && info.available; });
}

/// What the options say for every launcher; the hosts are still missing.
Result<SurveySetup> common_setup(const CommOptions& options, const std::vector<std::string>& allowed,
                                 const std::vector<std::string>& usual) {
  SurveySetup setup{.hosts = {}, .backends = options.backends, .sizes = {}};
  YOKE_CHECK(check_backends(options.backends, allowed));
  if (setup.backends.empty()) {
    for (const auto& name : usual) {
      if (name == "auto" || has_backend(name)) setup.backends.push_back(name);
    }
  }
  YOKE_TRY(setup.sizes, parse_sizes(options.sizes));
  const auto budget = base::parse_duration(options.budget);
  if (!budget.ok()) return option_error("--budget", budget.error().message);
  if (*budget <= base::Duration::zero()) return option_error("--budget", "found 0, expected a time > 0, e.g. 20s");
  setup.budget = *budget;
  YOKE_TRY(setup.intra_bandwidth, parse_nominal("--intra-bandwidth", options.intra_bandwidth));
  YOKE_TRY(setup.inter_bandwidth, parse_nominal("--inter-bandwidth", options.inter_bandwidth));
  return setup;
}

/// Bandwidths of the cluster file stand where no option does.
void take_nominal(SurveySetup& setup, const cluster::Cluster& cluster) {
  for (const auto& node : cluster.nodes()) {
    if (!setup.intra_bandwidth && node.devices > 1) setup.intra_bandwidth = node.intra_bandwidth;
    if (!setup.inter_bandwidth) setup.inter_bandwidth = node.inter_bandwidth;
  }
}

Status check_devices(const std::vector<int>& devices) {
  for (const int count : devices) {
    if (count < 1 || count > 256) {
      return option_error("--devices", fmt::format("found {}, expected 1 to 256 of a host", count));
    }
  }
  return {};
}

/// Processes of this machine: rank `first` and those after it.
struct LocalRanks {
  int first = 0;
  int count = 0;
  int all = 0;
  std::string store;
};

/// True when done, false when the user asked to stop.
Result<bool> run_local_ranks(const LocalRanks& ranks, Context& context) {
  if (context.program.empty()) {
    return base::peer_error("cannot find this program's own file (/proc/self/exe) to start the ranks with");
  }
  std::vector<RankCommand> commands;
  for (int i = 0; i < ranks.count; ++i) {
    commands.push_back(
        {.argv = {context.program, "profile", "comm", "--as-rank"},
         .environment = {fmt::format("YOKE_RANK={}", ranks.first + i), fmt::format("YOKE_SIZE={}", ranks.all),
                         fmt::format("YOKE_LOCAL_RANK={}", i), fmt::format("YOKE_LOCAL_SIZE={}", ranks.count),
                         "YOKE_STORE=" + ranks.store, fmt::format("YOKE_REPORT_FD={}", kReportFd)},
         .log = "/dev/null"});
  }
  std::map<int, base::Error> errors;
  const StopSignals signals(StopSignals::Second::kCounts);
  const LaunchHooks hooks{.report =
                              [&](int rank, std::string_view line) {
                                const auto report = parse_report(line);
                                if (!report.ok()) return;
                                if (const auto* error = std::get_if<base::Error>(&*report))
                                  errors.emplace(rank, *error);
                              },
                          .stop_requests = [&] { return signals.count() > 0 ? 2 : 0; }};  // there is nothing to save
  YOKE_TRY(const LaunchOutcome outcome, run_ranks(commands, LaunchTimes{}, hooks, context.clock));
  if (outcome.stop_requested) return false;
  const RankEnd* cause = outcome.cause();
  if (cause == nullptr) return true;
  if (const auto said = errors.find(cause->rank); said != errors.end()) return said->second;
  std::string message =
      fmt::format("the process of rank {} (pid {}) {}", ranks.first + cause->rank, cause->pid, name_end(*cause));
  if (const auto meaning = signal_meaning(cause->signal); !meaning.empty()) message += fmt::format(" ({})", meaning);
  if (!cause->last_lines.empty()) message += ": " + cause->last_lines.back();
  return base::peer_error(std::move(message));
}

/// The program that run_local_ranks() starts.
Status run_as_rank(Context& context) {
  YOKE_TRY(const RankIdentity identity, identify_rank(process_environment));
  YOKE_TRY(const auto managed, managed_rank(process_environment));
  const auto measure = [&]() -> Status {
    const auto patience = [&] { return Deadline::in(kPatience, context.clock); };
    YOKE_TRY(const auto store, comm::connect_tcp_store(identity.store, patience(), context.clock));
    YOKE_TRY(const SurveySetup setup, receive_survey(*store, patience()));
    const auto measured = survey_links(*store, identity.rank, setup, context.clock);
    return measured.ok() ? Status{} : measured.error();
  };
  const Status status = measure();
  if (!status.ok() && managed) ReportSender(managed->report_fd).send(status.error());
  return status;
}

Result<CommOutcome> with_threads(const CommOptions& options, SurveySetup setup, Context& context) {
  if (options.backends.size() > 1) {
    return option_error("--backends", fmt::format("found {}, expected {} alone: its ranks are threads",
                                                  fmt::join(options.backends, ","), base::quote(kThreads)));
  }
  setup.emulated = true;
  YOKE_TRY(profile::CommProfile measured, survey_in_threads(setup, context.clock));
  return CommOutcome{.profile = std::move(measured)};
}

/// This machine alone. The nodes of a cluster file are emulated on it, as `yoke run` does.
Result<CommOutcome> profile_here(const CommOptions& options, Context& context) {
  YOKE_TRY(SurveySetup setup, common_setup(options, {"auto", "shm", "gloo", kThreads}, {"auto", "gloo"}));
  setup.emulated = true;
  if (!options.cluster.empty()) {
    if (!options.devices.empty()) return option_error("--devices", "found it beside --cluster, expected one of them");
    YOKE_TRY(cluster::Cluster cluster, cluster::load_cluster(options.cluster));
    const auto elsewhere = nodes_elsewhere(cluster);
    if (options.only_here) {
      for (const auto& name : elsewhere) {
        YOKE_TRY(cluster, cluster.without(name));
      }
    } else if (!elsewhere.empty()) {
      return option_error("--cluster", fmt::format("found nodes on other hosts ({}), expected this machine only; use "
                                                   "--launcher hosts or mpi for them",
                                                   base::join_words(elsewhere)));
    }
    for (const auto& device : cluster.devices()) setup.hosts.push_back(device.node);
    take_nominal(setup, cluster);
  } else {
    YOKE_CHECK(check_devices(options.devices));
    if (options.devices.size() > 1) {
      return option_error("--devices", "found several numbers, expected one: there is one host");
    }
    setup.hosts.assign(static_cast<std::size_t>(options.devices.empty() ? 2 : options.devices.front()), host_name());
  }
  if (setup.hosts.size() < 2) {
    return option_error(options.cluster.empty() ? "--devices" : "--cluster",
                        "found one device, expected at least two to have a link between");
  }
  if (std::ranges::find(setup.backends, kThreads) != setup.backends.end()) return with_threads(options, setup, context);
  YOKE_TRY(const auto server, comm::TcpStoreServer::start("127.0.0.1"));
  const std::string address = address_of("127.0.0.1", server->port());
  const auto patience = [&] { return Deadline::in(kPatience, context.clock); };
  YOKE_TRY(const auto store, comm::connect_tcp_store(address, patience(), context.clock));
  YOKE_CHECK(share_survey(*store, setup, patience()));
  const int count = static_cast<int>(setup.hosts.size());
  YOKE_TRY(const bool done, run_local_ranks({.count = count, .all = count, .store = address}, context));
  if (!done) return CommOutcome{.profile = {}, .interrupted = true};
  YOKE_TRY(profile::CommProfile measured, receive_links(*store, patience()));
  return CommOutcome{.profile = std::move(measured)};
}

/// `2,1`: the devices of each host; `2` or nothing: the same of all.
Result<std::vector<int>> devices_of_hosts(const CommOptions& options) {
  YOKE_CHECK(check_devices(options.devices));
  const std::size_t hosts = options.hosts.hosts.size();
  if (options.devices.size() == hosts && hosts > 0) return options.devices;
  if (options.devices.size() > 1) {
    return option_error("--devices", fmt::format("found {} numbers, expected one, or one for each of {} hosts",
                                                 options.devices.size(), hosts));
  }
  return std::vector<int>(hosts, options.devices.empty() ? 1 : options.devices.front());
}

/// Every host runs this command; the first one decides what is measured.
Result<CommOutcome> profile_hosts(const CommOptions& options, Context& context) {
  YOKE_TRY(SurveySetup setup, common_setup(options, {"auto", "shm", "gloo", "hierarchical"}, {"auto", "gloo"}));
  YOKE_TRY(const std::vector<int> devices, devices_of_hosts(options));
  YOKE_TRY(const int own, options.hosts.own_rank());
  if (!options.cluster.empty()) {
    YOKE_TRY(const cluster::Cluster cluster, cluster::load_cluster(options.cluster));
    take_nominal(setup, cluster);
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    // A machine may be there under one name twice (network namespaces, tests): the place tells them apart.
    const auto& name = options.hosts.hosts[i];
    const bool twice = std::ranges::count(options.hosts.hosts, name) > 1;
    setup.hosts.insert(setup.hosts.end(), static_cast<std::size_t>(devices[i]),
                       twice ? fmt::format("{}#{}", name, i) : name);
  }
  YOKE_TRY(HostMeeting meeting, HostMeeting::join(options.hosts, {}, context.clock));
  context.log.info("rank {} of {} hosts, which meet at {}", own, meeting.size(), meeting.address());
  if (own == 0) YOKE_CHECK(share_survey(meeting.store(), setup, meeting.patience()));
  YOKE_TRY(const auto plans,
           meeting.exchange("devices", fmt::format("{}", fmt::join(devices, ",")), meeting.patience()));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i] == plans[0]) continue;
    return option_error("--devices",
                        fmt::format("host {} was given {}, host {} {}; expected the same on all", meeting.describe(0),
                                    plans[0], meeting.describe(static_cast<int>(i)), plans[i]));
  }
  const auto ended = run_local_ranks({.first = std::accumulate(devices.begin(), devices.begin() + own, 0),
                                      .count = devices[static_cast<std::size_t>(own)],
                                      .all = static_cast<int>(setup.hosts.size()),
                                      .store = meeting.address()},
                                     context);
  if (ended.ok() && !*ended) return CommOutcome{.profile = {}, .interrupted = true};
  // A rank whose peer was lost can say less of it than the host that the peer ran on.
  const Result<std::string> word = ended.ok() ? Result<std::string>("done") : ended.error();
  const auto deadline = Deadline::in(kPatience + 2 * setup.budget, context.clock);
  YOKE_CHECK(meeting.exchange("measured", word, deadline));
  YOKE_TRY(profile::CommProfile measured, receive_links(meeting.store(), meeting.patience()));
  meeting.leave();
  return CommOutcome{.profile = std::move(measured)};
}

/// This process is one of those that mpirun has started.
Result<CommOutcome> profile_as_mpi_rank(const CommOptions& options, Context& context) {
  if (!options.devices.empty()) {
    return option_error("--devices", "found it under mpirun, expected one device for each rank that it starts");
  }
  YOKE_TRY(const RankIdentity identity, identify_rank(process_environment));
  if (identity.launcher != Launcher::kMpirun) {
    return option_error("--launcher",
                        fmt::format("found mpi in a process that {} has started, expected mpirun: `mpirun "
                                    "-n 2 yoke profile comm --launcher mpi`",
                                    to_string(identity.launcher)));
  }
  if (identity.size < 2) return option_error("--launcher", "found one rank, expected mpirun -n 2 or more");
  YOKE_TRY(SurveySetup setup,
           common_setup(options, {"auto", "shm", "gloo", "hierarchical", "mpi"}, {"auto", "gloo", "mpi"}));
  const bool with_mpi = std::ranges::find(setup.backends, "mpi") != setup.backends.end();
  const auto patience = [&] { return Deadline::in(kPatience, context.clock); };
  YOKE_TRY(Meeting meeting, meet(identity, true, with_mpi, patience(), context.clock));
  YOKE_TRY(const auto places, tell_place(*meeting.store, identity, this_place(), patience()));
  if (identity.rank == 0) {
    for (const auto& place : places) setup.hosts.push_back(place.host);
    if (!options.cluster.empty()) {
      YOKE_TRY(const cluster::Cluster cluster, cluster::load_cluster(options.cluster));
      take_nominal(setup, cluster);
    }
    YOKE_CHECK(share_survey(*meeting.store, setup, patience()));
  } else {
    YOKE_TRY(setup, receive_survey(*meeting.store, patience()));
  }
  auto measured = survey_links(*meeting.store, identity.rank, setup, context.clock);
  meeting.store.reset();
  if (meeting.server) meeting.server->drain(patience());
  if (!measured.ok()) return measured.error();
  return CommOutcome{.profile = *std::move(measured), .writes = identity.rank == 0};
}

std::string share(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f}%", part / whole * 100) : "-";
}

/// What was not measured now stays as an older file has it.
void keep_unmeasured(profile::CommProfile& comm, const profile::CommProfile& old) {
  const auto keep = [&](LinkScope scope, auto points, auto bandwidth) {
    if (!(comm.*points).empty()) return;
    comm.*points = old.*points;
    comm.*bandwidth = old.*bandwidth;
    for (const auto& link : old.links) {
      if (link.scope == scope) comm.links.push_back(link);
    }
  };
  keep(LinkScope::kIntra, &profile::CommProfile::intra, &profile::CommProfile::intra_bandwidth);
  keep(LinkScope::kInter, &profile::CommProfile::inter, &profile::CommProfile::inter_bandwidth);
}

Status run_comm(const CommOptions& options, Context& context) {
  if (options.as_rank) return run_as_rank(context);
  YOKE_CHECK(check_comm_folder(options.out));
  YOKE_TRY(const CommOutcome outcome, profile_comm(options, context));
  if (outcome.interrupted) {
    context.exit_code = kExitInterrupted;
    if (context.json) print_json(context, {{"interrupted", true}});
    return {};
  }
  if (!outcome.writes) return {};
  YOKE_TRY(const auto sizes, parse_sizes(options.sizes));
  for (const auto& link : outcome.profile.links) {
    if (link.points.empty() || link.points.back().bytes >= static_cast<std::int64_t>(sizes.back())) continue;
    context.log.warning("{} {}: the budget of {} did not last for more than {}; --budget gives it more time",
                        link.backend, link.op == LinkOp::kAllReduce ? "all-reduces" : "messages", options.budget,
                        base::format(base::Bytes{link.points.back().bytes}));
  }
  YOKE_TRY(const auto files, save_comm_profile(options.out, outcome.profile));
  if (context.json) {
    Json json = profile::comm_json(outcome.profile);
    json["files"] = files;
    print_json(context, json);
    return {};
  }
  context.out << describe_links(outcome.profile);
  const auto advise = [&](std::string_view key, const std::optional<base::Bandwidth>& nominal) {
    if (nominal)
      context.out << fmt::format("{}: {}  (in the cluster file: ideal times assume it)\n", key,
                                 base::exact(nominal->bytes_per_s));
  };
  context.out << "\n";
  advise("intra_bandwidth", outcome.profile.intra_bandwidth);
  advise("inter_bandwidth", outcome.profile.inter_bandwidth);
  context.out << fmt::format("written: {}\n", base::join_words(files));
  return {};
}

}  // namespace

Result<CommOutcome> profile_comm(const CommOptions& options, Context& context) {
  const std::vector<std::string> launchers{"local", "mpi", "hosts"};
  if (std::ranges::find(launchers, options.launcher) == launchers.end()) {
    return option_error(
        "--launcher", fmt::format("found {}, expected {}{}", base::quote(options.launcher),
                                  base::join_words(launchers, "or"), base::did_you_mean(options.launcher, launchers)));
  }
  if (options.launcher != "hosts" && !options.hosts.hosts.empty()) {
    return option_error("--hosts",
                        fmt::format("found it with --launcher {}, expected --launcher hosts", options.launcher));
  }
  if (options.launcher == "mpi") return profile_as_mpi_rank(options, context);
  return options.launcher == "hosts" ? profile_hosts(options, context) : profile_here(options, context);
}

Status check_comm_folder(const std::string& folder) {
  YOKE_CHECK(base::make_folder(folder));
  YOKE_CHECK(profile::load_comm(folder));
  // Made and removed again: a folder that takes no file is better found out now.
  const auto trial = base::FileWriter::create(base::join_path(folder, "comm.json"));
  return trial.ok() ? Status{} : trial.error();
}

Result<std::vector<std::string>> save_comm_profile(const std::string& folder, const profile::CommProfile& comm) {
  YOKE_TRY(const profile::CommProfile old, profile::load_comm(folder));
  profile::CommProfile whole = comm;
  keep_unmeasured(whole, old);
  YOKE_CHECK(profile::save_comm(folder, whole));
  std::vector<std::string> files{base::join_path(folder, "comm.json")};
  const std::string texts = base::join_path(folder, "comm_profile_data");
  YOKE_CHECK(base::make_folder(texts));
  for (const auto& [name, points] : {std::pair{"intra", &whole.intra}, {"inter", &whole.inter}}) {
    if (points->empty()) continue;
    files.push_back(base::join_path(texts, fmt::format("{}_comm_profile_data.txt", name)));
    YOKE_CHECK(base::publish_file(files.back(), profile::jabas::to_comm_text(*points)));
  }
  return files;
}

std::string describe_links(const profile::CommProfile& comm) {
  using Align = Table::Align;
  Table table({{"link"},
               {"op"},
               {"backend"},
               {"ranks", Align::kRight},
               {"latency", Align::kRight},
               {"bandwidth", Align::kRight},
               {"fit off by", Align::kRight},
               {"smallest", Align::kRight},
               {"spread", Align::kRight},
               {"largest", Align::kRight},
               {"", Align::kRight},
               {"spread", Align::kRight}});
  for (const auto& link : comm.links) {
    const std::string where = link.scope == LinkScope::kIntra ? "inside a host"
                              : link.between.empty()          ? "between hosts"
                                                              : fmt::format("{}", fmt::join(link.between, " - "));
    std::vector<std::string> cells{base::printable(where, 40),
                                   std::string(link.op == LinkOp::kAllReduce ? "all-reduce" : "message"),
                                   base::printable(link.backend, 20),
                                   std::to_string(link.ranks),
                                   base::format_seconds(link.latency_ms / 1000),
                                   base::format(link.bandwidth),
                                   fmt::format("{:.0f}%", link.error * 100)};
    if (link.points.empty()) {
      cells.resize(12, "-");
    } else {
      const auto& small = link.points.front();
      const auto& large = link.points.back();
      cells.insert(cells.end(), {base::format_seconds(small.median_ms / 1000), share(small.spread_ms, small.median_ms),
                                 base::format_seconds(large.median_ms / 1000), base::format(base::Bytes{large.bytes}),
                                 share(large.spread_ms, large.median_ms)});
    }
    table.add(std::move(cells));
  }
  return table.to_string();
}

void add_profile_comm(CLI::App& group, Action& chosen) {
  add_command<CommOptions>(
      group, chosen, "comm", "measure the links between devices and between hosts",
      [](Arguments& command, CommOptions& options) {
        command.option("--out", options.out, "profile folder");
        command.option("--launcher", options.launcher,
                       "local: devices of this machine; mpi: this is a rank of mpirun; hosts: all --hosts run this");
        command.option("--devices", options.devices, "devices of a host (default: 2, with --hosts 1), or of each host");
        command.option("--cluster", options.cluster, "cluster file: its devices (local) and nominal bandwidths");
        command.option("--backends", options.backends, "which to measure; the first is what plans count on");
        command.option("--sizes", options.sizes, "bytes, e.g. 4KiB,1MiB,100MiB (default: ten from 4 KiB to 100 MiB)");
        command.option("--budget", options.budget, "time for all measurements");
        command.option("--intra-bandwidth", options.intra_bandwidth, "nominal, for ideal times (default: measured)");
        command.option("--inter-bandwidth", options.inter_bandwidth, "the same between hosts");
        options.hosts.declare(command);
        command.option("--model", options.model, "links do not depend on it");
        command.hidden_flag("--as-rank", options.as_rank);
      },
      run_comm);
}

}  // namespace yoke::cli
