// `yoke simulate PLAN`: executes the schedule of a plan in simulated time.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ostream>

#include "yoke/base/files.h"
#include "yoke/base/trace.h"
#include "yoke/base/units.h"
#include "yoke/cli/command.h"
#include "yoke/cli/inputs.h"
#include "yoke/cli/plan.h"
#include "yoke/cli/table.h"
#include "yoke/cluster/cluster_file.h"
#include "yoke/plan/cost/choose_cost.h"
#include "yoke/plan/plan.h"
#include "yoke/profile/profile_folder.h"
#include "yoke/sim/costs.h"
#include "yoke/sim/simulator.h"
#include "yoke/sim/timeline.h"

namespace yoke::cli {
namespace {

struct SimulateOptions {
  std::string plan;
  std::string profile;
  std::string profiles;
  std::string cluster;
  std::string profiled_on;
  std::string cost = "auto";
  std::string trace;
  std::string svg;
  int steps = 1;
  double jitter = 0;
  std::int64_t seed = 1;
  int optimizer_copies = 1;
  std::string latency;
  std::string intra_latency;
  std::string switch_bandwidth;
};

/// What is simulated, and on what.
struct Subject {
  plan::Plan plan;
  std::optional<cluster::Cluster> cluster;
  std::optional<profile::LayerGraph> graph;
  sim::NetworkOptions network;
};

base::Error at_plan(base::Error error, const std::string& file) {
  const auto& field = error.where.field;
  if (error.where.file.empty() && (field.starts_with("pipeline_lanes") || field.starts_with("data_lanes"))) {
    error.where.file = file;
  }
  return error;
}

/// The seconds of the data lanes anew, for this cluster.
base::Status price_data_lanes(Subject& subject, const profile::ProfileSet& profiles, const SimulateOptions& options,
                              Context& context) {
  const std::string& file = options.plan;
  plan::Plan& plan = subject.plan;
  if (!profiles.model.empty() && !plan.model.empty() && profiles.model != plan.model) {
    return base::input_error(fmt::format("found a plan of {}, but the profiles are of {}", plan.model, profiles.model),
                             {.file = file, .field = "model"});
  }
  const auto chosen = plan::choose_cost(options.cost, *subject.cluster, profiles);
  if (!chosen.ok()) return at_option(chosen.error(), {"--cost"});
  const plan::BatchCost& cost = *chosen->model;
  for (const auto& warning : chosen->warnings) context.log.warning("{}", warning);
  plan::Extent extent{.devices = static_cast<int>(plan.data_lanes.size())};
  for (const auto& lane : plan.data_lanes) {
    extent.across_nodes = extent.across_nodes || lane.device.node != plan.data_lanes.front().device.node;
  }
  const auto& nodes = cost.cluster().nodes();
  for (std::size_t i = 0; i < plan.data_lanes.size(); ++i) {
    auto& lane = plan.data_lanes[i];
    const auto node =
        std::find_if(nodes.begin(), nodes.end(), [&](const auto& each) { return each.name == lane.device.node; });
    const int device_class = cost.node_classes()[static_cast<std::size_t>(node - nodes.begin())];
    if (lane.vsw > cost.max_vsw(device_class, plan.lbs)) {
      return base::infeasible_error(
          fmt::format("{} runs {} workers of {} samples at once, but by its profile the memory "
                      "holds {}",
                      lane.device.to_string(), lane.vsw, plan.lbs, cost.max_vsw(device_class, plan.lbs)),
          {.file = file, .field = fmt::format("data_lanes[{}].vsw", i)});
    }
    lane.seconds = cost.parts(device_class, {.lbs = plan.lbs, .vsw = lane.vsw, .ga = lane.ga}, plan.sync, extent);
  }
  plan.step_seconds = 0;  // it was predicted for other times
  plan.cost_model = chosen->name;
  return {};
}

base::Result<double> parse_latency(const std::string& text, const std::string& option) {
  if (text.empty()) return 0.0;
  const auto latency = base::parse_duration(text);
  if (!latency.ok()) return option_error(option, latency.error().message);
  return base::to_seconds(*latency);
}

base::Result<sim::NetworkOptions> network_options(const SimulateOptions& options) {
  sim::NetworkOptions network;
  YOKE_TRY(network.inter_latency, parse_latency(options.latency, "--latency"));
  YOKE_TRY(network.intra_latency, parse_latency(options.intra_latency, "--intra-latency"));
  if (!options.switch_bandwidth.empty()) {
    const auto bandwidth = base::parse_bandwidth(options.switch_bandwidth);
    if (!bandwidth.ok()) return option_error("--switch", bandwidth.error().message);
    if (bandwidth->bytes_per_s < 1) return option_error("--switch", "expected at least 1 byte per second");
    network.switch_bytes_per_s = bandwidth->bytes_per_s;
  }
  return network;
}

base::Result<Subject> load_subject(const SimulateOptions& options, Context& context) {
  Subject subject;
  YOKE_TRY(subject.network, network_options(options));
  YOKE_TRY(subject.plan, plan::load_plan(options.plan));
  if (!options.cluster.empty()) {
    YOKE_TRY(subject.cluster, cluster::load_cluster(options.cluster));
    for (const auto& device : subject.plan.devices()) YOKE_CHECK(subject.cluster->require_device(device));
  } else if (!options.profile.empty() || !options.profiles.empty()) {
    return option_error("--cluster", "found none, expected the cluster file of the profile's machines");
  }
  if (!options.profile.empty()) {
    YOKE_TRY(subject.graph, profile::load_layer_graph(options.profile));
  }
  bool estimated = false;
  if (!options.profiles.empty()) {
    YOKE_TRY(AnyProfile any, load_any_profile(options.profiles, context));
    if (!subject.graph && !subject.plan.pipeline_lanes.empty()) subject.graph = std::move(any.graph);
    if (any.profiles) {
      YOKE_TRY(subject.cluster, with_profiled_bandwidths(*subject.cluster, any.profiles->comm, context));
      subject.network = sim::with_measured_links(subject.network, any.profiles->comm);
    }
    if (any.profiles && !subject.plan.data_lanes.empty()) {
      YOKE_CHECK(price_data_lanes(subject, *any.profiles, options, context));
      estimated = any.profiles->source() == profile::Source::kEstimate;
    }
  }
  estimated = estimated || (subject.graph && subject.graph->source() == profile::Source::kEstimate);
  if (estimated) subject.plan.source = profile::Source::kEstimate;
  return subject;
}

Json to_json(const Subject& subject, const plan::Schedule& schedule, const sim::SimReport& report) {
  Json devices = Json::array();
  for (std::size_t d = 0; d < report.devices.size(); ++d) {
    const auto& device = report.devices[d];
    const auto& program = schedule.programs[d];
    devices.push_back({{"device", program.device.to_string()},
                       {"lane", program.lane},
                       {"stage", program.stage},
                       {"computing_seconds", device.computing()},
                       {"exposed_communication_seconds", device.exposed_communication},
                       {"exposed_update_seconds", device.exposed_update},
                       {"bubble_seconds", device.bubble},
                       {"peak_bytes", device.peak_bytes}});
  }
  const double samples = static_cast<double>(subject.plan.gbs);
  return {{"model", subject.plan.model},
          {"gbs", subject.plan.gbs},
          {"workers", subject.plan.workers()},
          {"source", profile::to_string(subject.plan.source)},
          {"steps", report.steps()},
          {"seconds", report.seconds},
          {"step_seconds", report.step_seconds()},
          {"steady_step_seconds", report.steady_step_seconds()},
          {"samples_per_second", samples / report.steady_step_seconds()},
          {"computing_share", report.computing_share()},
          {"exposed_communication_share", report.exposed_communication_share()},
          {"bubble_share", report.bubble_share()},
          {"peak_bytes", report.peak_bytes()},
          {"events", report.events},
          {"devices", std::move(devices)}};
}

std::string percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

void print(const Subject& subject, const plan::Schedule& schedule, const sim::SimReport& report, std::ostream& out) {
  using Align = Table::Align;
  constexpr std::size_t kMostRows = 40;
  Table table({{"device"},
               {"role"},
               {"computing", Align::kRight},
               {"communication", Align::kRight},
               {"update", Align::kRight},
               {"bubble", Align::kRight},
               {"memory", Align::kRight}});
  const std::size_t rows = std::min(report.devices.size(), kMostRows);
  const bool memory = report.peak_bytes() > 0;
  for (std::size_t d = 0; d < rows; ++d) {
    const auto& device = report.devices[d];
    const auto& program = schedule.programs[d];
    const bool data = program.kind == plan::ScheduleKind::kData;
    const auto share = [&](double seconds) { return percent(seconds / report.seconds); };
    table.add({program.device.to_string(),
               data ? "data" : fmt::format("stage {} replica {}", program.stage, program.replica),
               share(device.computing()), share(device.exposed_communication), share(device.exposed_update),
               share(std::max(0.0, device.bubble)),
               memory ? base::format(base::Bytes{static_cast<std::int64_t>(device.peak_bytes)}) : "-"});
  }
  out << table.to_string();
  if (rows < report.devices.size()) out << fmt::format("... and {} devices more\n", report.devices.size() - rows);
  const double steady = report.steady_step_seconds();
  out << fmt::format("\n{} workers of {} samples in {} step{}: {} in all\n", schedule.workers, subject.plan.lbs,
                     report.steps(), report.steps() == 1 ? "" : "s", base::format_seconds(report.seconds));
  out << fmt::format("step {}{}, {:.1f} samples/s\n", base::format_seconds(steady),
                     report.steps() > 1
                         ? fmt::format(" ({} with filling and draining)", base::format_seconds(report.step_seconds()))
                         : "",
                     static_cast<double>(subject.plan.gbs) / steady);
  out << fmt::format("devices: {} computing, {} waiting for communication, {} in the bubble\n",
                     percent(report.computing_share()), percent(report.exposed_communication_share()),
                     percent(report.bubble_share()));
  if (subject.plan.step_seconds > 0) {
    out << fmt::format("the plan predicts a step of {}\n", base::format_seconds(subject.plan.step_seconds));
  }
  if (subject.plan.source == profile::Source::kEstimate) out << kFromEstimates << "\n";
}

base::Status run_simulate(const SimulateOptions& options, Context& context) {
  if (options.steps < 1 || options.steps > 100'000)
    return option_error("--steps", fmt::format("found {}, expected 1 to 100000", options.steps));
  if (!(options.jitter >= 0 && options.jitter < 1))
    return option_error("--jitter", fmt::format("found {}, expected at least 0 and less than 1", options.jitter));
  if (options.optimizer_copies < 0 || options.optimizer_copies > 16)
    return option_error("--optimizer-copies", fmt::format("found {}, expected 0 to 16", options.optimizer_copies));
  YOKE_TRY(const Subject subject, load_subject(options, context));
  const plan::ScheduleRequest request{.steps = options.steps};
  auto priced = subject.graph
                    ? sim::price_with_profile(
                          subject.plan, *subject.graph, *subject.cluster,
                          {.optimizer_copies = options.optimizer_copies, .profiled_on = options.profiled_on}, request)
                    : sim::price_as_predicted(subject.plan, request);
  if (!priced.ok()) return at_option(at_plan(priced.error(), options.plan), {"--profiled-on", "--steps"});
  const plan::Schedule& schedule = priced->schedule;
  std::vector<cluster::DeviceId> devices;
  for (const auto& program : schedule.programs) devices.push_back(program.device);
  auto network = subject.graph ? sim::Network::make(*subject.cluster, devices, subject.network)
                               : base::Result(sim::Network::ideal(static_cast<int>(devices.size())));
  if (!network.ok()) return network.error();
  YOKE_TRY(const sim::SimReport report, sim::simulate(schedule, priced->costs, *network,
                                                      {.jitter = options.jitter,
                                                       .seed = static_cast<std::uint64_t>(options.seed),
                                                       .record = !options.trace.empty() || !options.svg.empty()}));
  if (!options.trace.empty()) {
    base::Trace trace;
    sim::add_to_trace(schedule, report, trace);
    YOKE_CHECK(trace.write(options.trace));
    context.log.info("wrote {}; chrome://tracing or ui.perfetto.dev shows it", options.trace);
  }
  if (!options.svg.empty()) {
    YOKE_CHECK(base::publish_file(options.svg, sim::draw_timeline(schedule, report, timeline_title(subject.plan))));
    context.log.info("drew {}", options.svg);
  }
  std::optional<sim::MemoryExcess> excess;
  if (subject.graph) {
    std::vector<double> peaks;
    for (const auto& device : report.devices) peaks.push_back(device.peak_bytes);
    excess = sim::memory_excess(schedule, peaks, *subject.cluster);
  }
  if (context.json) {
    Json json = to_json(subject, schedule, report);
    if (subject.graph) json["fits_memory"] = !excess.has_value();
    print_json(context, json);
  } else {
    print(subject, schedule, report, context.out);
  }
  if (excess) {
    context.log.warning("{} needs {}, more than its memory of {}: the plan will not run",
                        schedule.programs[static_cast<std::size_t>(excess->program)].device.to_string(),
                        base::format(base::Bytes{static_cast<std::int64_t>(excess->needed)}),
                        base::format(base::Bytes{static_cast<std::int64_t>(excess->limit)}));
  }
  return {};
}

}  // namespace

std::string timeline_title(const plan::Plan& plan) {
  return fmt::format("{}: {} workers of {}, {}", plan.model, plan.workers(), plan.lbs,
                     plan.pipeline_lanes.empty() ? "data" : plan.pipeline_lanes.front().schedule);
}

void add_simulate(CLI::App& app, Action& chosen) {
  add_command<SimulateOptions>(
      app, chosen, "simulate", "execute a plan in simulated time",
      [](Arguments& command, SimulateOptions& options) {
        command.required("plan", options.plan, "plan file");
        command.option("--profile", options.profile, "layers: PipeDream graph.txt, layers.json or its folder");
        command.option("--profiles", options.profiles, "Yoke profile folder, for data lanes");
        command.option("--cluster", options.cluster, "cluster file");
        command.option("--profiled-on", options.profiled_on, "device type of the layer profile (default: the fastest)");
        command.option("--cost", options.cost,
                       "of data lanes with --profiles: iidp, measured, or auto: measured where the profiles allow it");
        command.option("--steps", options.steps, "steps to execute");
        command.option("--jitter", options.jitter, "passes vary by this part of their time, e.g. 0.1");
        command.option("--seed", options.seed, "of the jitter");
        command.option("--optimizer-copies", options.optimizer_copies, "numbers the optimizer keeps per weight");
        command.option("--latency", options.latency, "of a message between nodes, e.g. 50us (default: none)");
        command.option("--intra-latency", options.intra_latency, "of a message inside a node (default: none)");
        command.option("--switch", options.switch_bandwidth, "bandwidth that all nodes share (default: no limit)");
        command.option("--trace", options.trace, "write a Chrome trace here");
        command.option("--svg", options.svg, "draw the timeline into this file");
      },
      run_simulate);
}

}  // namespace yoke::cli
