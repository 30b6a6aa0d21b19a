// `yoke plan pipeline`: cuts a layer graph into pipeline stages, by our cost model or by PipeDream's.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>

#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/inputs.h"
#include "yoke/cli/plan.h"
#include "yoke/cli/table.h"
#include "yoke/cluster/cluster_file.h"
#include "yoke/plan/solve/pipeline/overlap.h"
#include "yoke/plan/solve/pipeline/overlap_lane.h"
#include "yoke/plan/solve/pipeline/pipedream.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using Align = Table::Align;

struct PipelineOptions {
  std::string profile;
  std::vector<int> devices;
  std::vector<std::string> bandwidths;
  std::string cluster;
  std::string profiled_on;
  std::string memory;
  bool straight = false;
  bool fewer = false;
  std::optional<double> compression;
  std::string cost = "overlap";
  std::string schedule = "1f1b-flush";
  std::optional<int> micro_batches;
  int optimizer_copies = 1;
  std::optional<int> lbs;
  std::string out;
};

/// What both solvers answer, as the user sees it.
struct Answer {
  struct Stage {
    std::vector<std::string> layers;
    int replicas = 1;
    double seconds = 0;         // per minibatch, in the cost model's terms
    double worker_seconds = 0;  // forward and backward of one minibatch on one device
    std::string type;           // device type; empty when all are alike
    std::string bound;          // what the stage's time is spent on
    // Per minibatch; only our own cost model tells them apart.
    double compute_seconds = 0;
    double all_reduce_seconds = 0;
    double transfer_seconds = 0;
    double memory_bytes = 0;
    std::vector<cluster::DeviceId> devices;
  };
  std::string aim;  // what was minimised
  double seconds_per_minibatch = 0;
  double step_seconds = 0;
  int step_minibatches = 1;
  bool proven = true;
  bool data_parallel_fits = true;
  double data_parallel_seconds = 0;
  double single_seconds = 0;
  int states = 0;
  std::vector<Stage> stages;
  std::vector<int> stage_of;
  std::string reduction;
};

struct Level {
  int machines = 1;
  double bytes_per_s = 0;
};

/// --devices and --bandwidth, innermost level first.
base::Result<std::vector<Level>> parse_levels(const PipelineOptions& options) {
  if (options.devices.empty())
    return option_error(
        "--devices", "expected the machines of each level, innermost first, e.g. 4,4 for four nodes of four devices");
  if (options.devices.size() != options.bandwidths.size()) {
    return option_error("--bandwidth", fmt::format("found {} bandwidths for {} levels of --devices, expected one each",
                                                   options.bandwidths.size(), options.devices.size()));
  }
  std::vector<Level> levels;
  for (std::size_t i = 0; i < options.devices.size(); ++i) {
    if (options.devices[i] < 1 || options.devices[i] > 100'000)
      return option_error("--devices", fmt::format("found {}, expected 1 to 100000 machines", options.devices[i]));
    const auto bandwidth = base::parse_bandwidth(options.bandwidths[i]);
    if (!bandwidth.ok()) return option_error("--bandwidth", bandwidth.error().message);
    if (bandwidth->bytes_per_s < 1)
      return option_error("--bandwidth", fmt::format("found {}, expected at least 1 byte per second",
                                                     base::quote(options.bandwidths[i])));
    levels.push_back({options.devices[i], bandwidth->bytes_per_s});
  }
  return levels;
}

base::Result<std::optional<double>> parse_memory(const PipelineOptions& options) {
  if (options.memory.empty()) return std::optional<double>();
  const auto bytes = base::parse_bytes(options.memory);
  if (!bytes.ok()) return option_error("--memory", bytes.error().message);
  return std::optional(static_cast<double>(bytes->count));
}

/// PipeDream counts only what is kept for minibatches in flight, so its last stage always fits. Say so where it does
/// not.
void warn_about_memory(const profile::LayerGraph& graph, const plan::PipedreamResult& result, double limit,
                       Context& context) {
  for (std::size_t i = 0; i < result.stages.size(); ++i) {
    double bytes = 0;
    for (const int layer : result.stages[i].layers) {
      const auto& each = graph.layers()[static_cast<std::size_t>(layer)];
      bytes += each.parameter_bytes + each.activation_bytes();
    }
    if (bytes > limit) {
      context.log.warning(
          "stage {} alone needs {:.3g} bytes, more than --memory; PipeDream's model does not see that, --cost overlap "
          "does",
          i, bytes);
    }
  }
}

base::Result<Answer> solve_like_pipedream(const profile::LayerGraph& graph, const PipelineOptions& options,
                                          Context& context) {
  if (!options.cluster.empty())
    return option_error(
        "--cluster",
        "PipeDream's cost model knows equal devices only; use --devices and --bandwidth, or --cost overlap");
  plan::PipedreamOptions request{.straight = options.straight, .fewer = options.fewer};
  YOKE_TRY(const auto levels, parse_levels(options));
  for (const auto& level : levels) request.levels.push_back({level.machines, level.bytes_per_s});
  YOKE_TRY(request.memory_bytes, parse_memory(options));
  if (options.compression && !(*options.compression > 0)) return option_error("--compression", "expected a number > 0");
  request.compression = options.compression;
  const auto solved = plan::solve_pipedream(graph, request);
  if (!solved.ok()) return at_option(solved.error(), {"--devices", "--bandwidth"});
  const plan::PipedreamResult& result = *solved;
  if (request.memory_bytes) warn_about_memory(graph, result, *request.memory_bytes, context);
  const int replicas = result.stages.front().replicas;
  Answer answer{.aim = "pace",
                .seconds_per_minibatch = result.seconds_per_minibatch,
                .step_seconds = result.seconds_per_minibatch * replicas,
                .step_minibatches = replicas,
                .data_parallel_seconds = result.data_parallel_seconds,
                .single_seconds = result.single_seconds,
                .states = result.states,
                .stage_of = result.stage_of,
                .reduction = result.reduction.describe()};
  int next = 0;
  for (const auto& stage : result.stages) {
    Answer::Stage shown{.layers = plan::layer_names(graph, stage.layers),
                        .replicas = stage.replicas,
                        .seconds = stage.seconds,
                        .worker_seconds = stage.seconds};
    for (int i = 0; i < stage.replicas; ++i, ++next) {
      const int per_node = levels.front().machines;
      shown.devices.push_back({fmt::format("node{}", next / per_node), next % per_node});
    }
    answer.stages.push_back(std::move(shown));
  }
  return answer;
}

base::Result<plan::PipelineSchedule> parse_schedule(const std::string& name) {
  const std::vector<std::string> names{"gpipe", "1f1b-flush", "1f1b-stash", "2bw"};
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    return option_error("--schedule", fmt::format("found {}, expected {}{}", base::quote(name), base::join_words(names),
                                                  base::did_you_mean(name, names)));
  }
  // 2bw is never drained either, and holds as many workers in flight.
  return name == "2bw" ? plan::PipelineSchedule::kStash : static_cast<plan::PipelineSchedule>(found - names.begin());
}

/// --devices and --bandwidth as one group: nodes of the innermost level, joined by the slowest of the outer ones.
base::Result<std::vector<plan::NodeGroup>> groups_of(const PipelineOptions& options) {
  YOKE_TRY(const auto levels, parse_levels(options));
  plan::NodeGroup only{.group = {.devices_per_node = levels[0].machines,
                                 .intra_bytes_per_s = levels[0].bytes_per_s,
                                 .inter_bytes_per_s = levels[0].bytes_per_s}};
  YOKE_TRY(only.group.memory_bytes, parse_memory(options));
  for (std::size_t i = 1; i < levels.size(); ++i) {
    only.group.nodes *= levels[i].machines;
    only.group.inter_bytes_per_s =
        i == 1 ? levels[i].bytes_per_s : std::min(only.group.inter_bytes_per_s, levels[i].bytes_per_s);
  }
  for (int i = 0; i < only.group.nodes; ++i) only.nodes.push_back(fmt::format("node{}", i));
  return std::vector{only};
}

base::Result<Answer> solve_with_overlap(const profile::LayerGraph& graph, const PipelineOptions& options) {
  if (options.straight)
    return option_error("--straight", "belongs to --cost pipedream; our cost model chooses the replicas itself");
  if (options.compression)
    return option_error("--compression", "belongs to --cost pipedream; our cost model counts transfers as they are");
  plan::OverlapOptions request{.optimizer_copies = options.optimizer_copies, .may_idle = options.fewer};
  YOKE_TRY(request.schedule, parse_schedule(options.schedule));
  std::vector<plan::NodeGroup> groups;
  if (!options.cluster.empty()) {
    if (!options.devices.empty())
      return option_error("--devices", "expected either --cluster or --devices with --bandwidth");
    YOKE_TRY(const cluster::Cluster cluster, cluster::load_cluster(options.cluster));
    YOKE_TRY(const auto memory, parse_memory(options));
    auto found = plan::node_groups(cluster, options.profiled_on, memory);
    if (!found.ok()) return at_option(found.error(), {"--profiled-on"});
    groups = *std::move(found);
  } else {
    YOKE_TRY(groups, groups_of(options));
  }
  int devices = 0;
  for (const auto& each : groups) {
    request.groups.push_back(each.group);
    devices += each.group.devices();
  }
  // Who says how many minibatches a step has wants that step to be short; else enough for every device, and no end.
  constexpr int kFewMicroBatches = 8;
  request.micro_batches = options.micro_batches.value_or(std::max(kFewMicroBatches, devices));
  if (options.micro_batches && request.schedule != plan::PipelineSchedule::kStash)
    request.aim = plan::PipelineAim::kStep;
  const auto solved = plan::solve_overlap(graph, request);
  if (!solved.ok()) {
    base::Error error = at_option(solved.error(), {"--micro-batches", "--optimizer-copies", "--devices"});
    if (error.where.field == "--devices" && !options.cluster.empty()) error.where.field = "--cluster";
    return error;
  }
  const plan::OverlapResult& result = *solved;
  Answer answer{.aim = request.aim == plan::PipelineAim::kStep ? "step" : "pace",
                .seconds_per_minibatch = result.seconds_per_minibatch,
                .step_seconds = result.step_seconds,
                .step_minibatches = request.micro_batches,
                .proven = result.proven,
                .data_parallel_fits = result.data_parallel_fits,
                .data_parallel_seconds = result.data_parallel_seconds,
                .single_seconds = result.single_seconds,
                .states = result.states,
                .stage_of = result.stage_of,
                .reduction = result.reduction.describe()};
  for (const auto& stage : result.stages) {
    const plan::NodeGroup& group = groups[static_cast<std::size_t>(stage.group)];
    Answer::Stage shown{.layers = plan::layer_names(graph, stage.layers),
                        .replicas = stage.replicas,
                        .seconds = stage.seconds,
                        .worker_seconds = stage.alone_seconds,
                        .type = group.group.type,
                        .bound = stage.seconds <= stage.compute_seconds      ? "compute"
                                 : stage.seconds <= stage.all_reduce_seconds ? "all-reduce"
                                                                             : "transfers",
                        .compute_seconds = stage.compute_seconds,
                        .all_reduce_seconds = stage.all_reduce_seconds,
                        .transfer_seconds = stage.transfer_seconds,
                        .memory_bytes = stage.memory_bytes};
    for (int i = stage.first_device; i < stage.first_device + stage.replicas; ++i) {
      shown.devices.push_back(group.device(i));
    }
    answer.stages.push_back(std::move(shown));
  }
  return answer;
}

Json to_json(const Answer& answer, const profile::LayerGraph& graph, const PipelineOptions& options,
             double solve_seconds) {
  Json stages = Json::array();
  for (const auto& stage : answer.stages) {
    Json shown{{"layers", stage.layers}, {"replicas", stage.replicas}, {"seconds", stage.seconds}};
    if (!stage.bound.empty()) {
      shown["bound"] = stage.bound;
      shown["device_type"] = stage.type;
      shown["compute_seconds"] = stage.compute_seconds;
      shown["all_reduce_seconds"] = stage.all_reduce_seconds;
      shown["transfer_seconds"] = stage.transfer_seconds;
      shown["memory_bytes"] = stage.memory_bytes;
    }
    stages.push_back(std::move(shown));
  }
  Json stage_of = Json::object();
  for (std::size_t i = 0; i < answer.stage_of.size(); ++i) stage_of[graph.layers()[i].id] = answer.stage_of[i];
  Json json{{"seconds_per_minibatch", answer.seconds_per_minibatch},
            {"data_parallel_seconds", answer.data_parallel_seconds},
            {"single_seconds", answer.single_seconds},
            {"stages", std::move(stages)},
            {"stage_of", std::move(stage_of)},
            {"cost", options.cost},
            {"minimised", answer.aim},
            {"step_seconds", answer.step_seconds},
            {"step_minibatches", answer.step_minibatches},
            {"states", answer.states},
            {"proven", answer.proven},
            {"solve_seconds", solve_seconds}};
  if (options.cost == "overlap") json["data_parallel_fits"] = answer.data_parallel_fits;
  if (!answer.reduction.empty()) json["reduction"] = answer.reduction;
  return json;
}

/// How long a stage keeps a minibatch of the steady stream, in the terms the bottleneck is found by.
double pace_of(const Answer::Stage& stage) {
  return stage.bound.empty() ? stage.seconds / stage.replicas : stage.seconds;
}

void print(const Answer& answer, const PipelineOptions& options, double solve_seconds, std::ostream& out) {
  double slowest = 0;
  for (const auto& stage : answer.stages) slowest = std::max(slowest, pace_of(stage));
  const bool ours = options.cost == "overlap";
  std::vector<Table::Column> columns{
      {"stage", Align::kRight}, {"layers", Align::kRight}, {"from"}, {"to"}, {"devices", Align::kRight}};
  if (ours) {
    columns.insert(columns.end(), {{"on"},
                                   {"compute", Align::kRight},
                                   {"transfers", Align::kRight},
                                   {"all-reduce", Align::kRight},
                                   {"memory", Align::kRight},
                                   {"of the slowest"},
                                   {"limited by"}});
  } else {
    columns.insert(columns.end(), {{"compute", Align::kRight}, {"of the slowest"}});
  }
  Table table(columns);
  for (std::size_t i = 0; i < answer.stages.size(); ++i) {
    const auto& stage = answer.stages[i];
    const double part = slowest > 0 ? pace_of(stage) / slowest : 1;
    const std::string share = fmt::format("{:3.0f}% {}", part * 100, bar(part, 10));
    std::vector<std::string> row{std::to_string(i), std::to_string(stage.layers.size()), stage.layers.front(),
                                 stage.layers.back(), std::to_string(stage.replicas)};
    if (ours) {
      row.insert(row.end(),
                 {stage.type.empty() ? stage.devices.front().to_string() + "..." : stage.type,
                  base::format_seconds(stage.compute_seconds), base::format_seconds(stage.transfer_seconds),
                  base::format_seconds(stage.all_reduce_seconds),
                  base::format(base::Bytes{static_cast<std::int64_t>(stage.memory_bytes)}), share, stage.bound});
    } else {
      row.insert(row.end(), {base::format_seconds(stage.seconds), share});
    }
    table.add(std::move(row));
  }
  out << table.to_string();
  if (!answer.reduction.empty()) out << answer.reduction << "\n";
  // Both ways of training in what was minimised: a step, or a minibatch of an endless stream.
  const bool step = answer.aim == "step";
  const int minibatches = step ? answer.step_minibatches : 1;
  const double time = step ? answer.step_seconds : answer.seconds_per_minibatch;
  const auto compared = [&](double seconds_per_minibatch) {
    const double seconds = seconds_per_minibatch * minibatches;
    return fmt::format("{} ({:.2f}x as long)", base::format_seconds(seconds), seconds / time);
  };
  if (ours) out << "times are per minibatch, shared by the devices of the stage\n";
  const bool alone_is_faster = ours && answer.data_parallel_fits && answer.data_parallel_seconds * minibatches < time;
  out << fmt::format("\nthis plan      {} {} (what was minimised)\ndata parallel  {}{}\none device     {}\n",
                     base::format_seconds(time),
                     step ? fmt::format("a step of {} minibatches, filling and draining counted", minibatches)
                          : "a minibatch in a pipeline that is always full",
                     compared(answer.data_parallel_seconds),
                     !answer.data_parallel_fits ? ", but does not fit the memory"
                     : alone_is_faster          ? ": no pipeline is needed here, see `yoke plan batch`"
                                                : "",
                     compared(answer.single_seconds));
  if (!step && ours) {
    const bool drains = options.schedule != "1f1b-stash" && options.schedule != "2bw";
    out << fmt::format("a step of {} minibatches takes {}{}\n", answer.step_minibatches,
                       base::format_seconds(answer.step_seconds),
                       drains ? " with filling and draining; give --micro-batches to minimise that" : "");
  }
  out << fmt::format("{} cuts considered, {} in {}\n", answer.states,
                     answer.proven ? "proven optimal" : "search cut short, best found",
                     base::format_seconds(solve_seconds));
}

plan::Plan to_plan(const Answer& answer, const PipelineOptions& options) {
  plan::PipelineLane lane{.schedule = options.cost == "pipedream" ? "1f1b-stash" : options.schedule,
                          .workers = answer.step_minibatches};
  for (const auto& stage : answer.stages) {
    lane.stages.push_back({.layers = stage.layers, .devices = stage.devices, .seconds = stage.worker_seconds});
    if (stage.bound.empty()) continue;  // PipeDream's model has one number for a stage
    lane.stages.back().predicted = plan::StagePrediction{.compute = stage.compute_seconds,
                                                         .transfers = stage.transfer_seconds,
                                                         .all_reduce = stage.all_reduce_seconds,
                                                         .memory_bytes = stage.memory_bytes};
  }
  plan::Plan plan{.model = std::filesystem::path(options.profile).stem().string(),
                  .gbs = static_cast<std::int64_t>(answer.step_minibatches) * *options.lbs,
                  .lbs = *options.lbs,
                  .step_seconds = answer.step_seconds,
                  .cost_model = options.cost};
  plan.pipeline_lanes.push_back(std::move(lane));
  return plan;
}

base::Status run_pipeline(const PipelineOptions& options, Context& context) {
  const std::vector<std::string> costs{"overlap", "pipedream"};
  if (std::find(costs.begin(), costs.end(), options.cost) == costs.end()) {
    return option_error("--cost", fmt::format("found {}, expected overlap or pipedream{}", base::quote(options.cost),
                                              base::did_you_mean(options.cost, costs)));
  }
  if (options.lbs ? *options.lbs < 1 : !options.out.empty())
    return option_error("--lbs", "expected the minibatch size of the profile, which --out puts into the plan");
  YOKE_TRY(const profile::LayerGraph graph, profile::load_layer_graph(options.profile));
  const base::Instant started = context.clock.now();
  YOKE_TRY(const Answer answer, options.cost == "pipedream" ? solve_like_pipedream(graph, options, context)
                                                            : solve_with_overlap(graph, options));
  const double solve_seconds = base::to_seconds(context.clock.now() - started);
  if (!options.out.empty()) {
    plan::Plan plan = to_plan(answer, options);
    plan.source = graph.source();
    YOKE_CHECK(save_plan(plan, options.out, context));
  }
  if (context.json) {
    Json json = to_json(answer, graph, options, solve_seconds);
    json["source"] = profile::to_string(graph.source());
    print_json(context, json);
  } else {
    print(answer, options, solve_seconds, context.out);
    if (graph.source() == profile::Source::kEstimate) context.out << kFromEstimates << "\n";
  }
  return {};
}

}  // namespace

void add_plan_pipeline(CLI::App& group, Action& chosen) {
  add_command<PipelineOptions>(
      group, chosen, "pipeline", "cut a layer graph into pipeline stages",
      [](Arguments& command, PipelineOptions& options) {
        command.required("--profile", options.profile, "PipeDream graph.txt, layers.json or its folder");
        command.option("--devices", options.devices, "machines of each level, innermost first, e.g. 4,4");
        command.option("--bandwidth", options.bandwidths, "bandwidth of each level, e.g. 15e9,10Gbit/s");
        command.option("--cluster", options.cluster, "unlike devices, instead of --devices (--cost overlap)");
        command.option("--profiled-on", options.profiled_on,
                       "device type the profile was taken on (default: the fastest)");
        command.option("--memory", options.memory, "memory of a device, e.g. 16GB (default: no limit)");
        command.flag("--straight", options.straight, "one device per stage (--cost pipedream)");
        command.flag("--fewer", options.fewer, "leave devices unused where that is faster");
        command.option("--compression", options.compression, "divide activation transfers by this (--cost pipedream)");
        command.option("--cost", options.cost, "overlap: ours; pipedream: as PipeDream's optimizer");
        command.option("--schedule", options.schedule, "gpipe, 1f1b-flush, 1f1b-stash or 2bw (--cost overlap)");
        command.option(
            "--micro-batches", options.micro_batches,
            "minibatches of a step, whose time is then minimised (--cost overlap; default: one per device, 8 "
            "at least, and the steady pace is minimised)");
        command.option("--optimizer-copies", options.optimizer_copies,
                       "numbers the optimizer keeps per weight: 0 SGD, 1 momentum, 2 Adam (--cost overlap)");
        command.option("--lbs", options.lbs, "minibatch size of the profile, for --out");
        command.option("--out", options.out, "write the plan file here");
      },
      run_pipeline);
}

}  // namespace yoke::cli
