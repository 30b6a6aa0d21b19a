// `yoke profile memory|compute|layers|bucket|all`: measure a model on the devices of this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <set>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/launch/machine.h"
#include "yoke/cli/launch/stop_signals.h"
#include "yoke/cli/profile.h"
#include "yoke/cli/profile/children.h"
#include "yoke/cli/profile_comm.h"
#include "yoke/cli/run/devices.h"
#include "yoke/cli/run/job_input.h"
#include "yoke/cli/table.h"
#include "yoke/cli/terminal.h"
#include "yoke/cluster/cluster_file.h"
#include "yoke/profile/profile_folder.h"
#include "yoke/profiler/budget.h"
#include "yoke/profiler/profiler.h"

namespace yoke::cli {
namespace {

using base::Result;
using base::Status;
using profiler::Part;

constexpr int kMostVsw = 32;  // that memory is tried for where its limit is given
constexpr int kUnbounded = 1 << 16;

/// Of the budget, what is kept for the links, which come last.
base::Duration time_for_links(base::Duration budget) {
  constexpr base::Duration kMost = std::chrono::seconds(20);
  return std::min(kMost, budget / 10);
}

struct MeasureOptions {
  std::string model;
  std::string job;
  std::vector<std::string> set;
  std::string lbs;
  std::string mode;
  std::string out;
  std::string cluster;
  std::string node;
  std::string memory;
  std::optional<int> most_vsw;
  std::string budget = "150s";
  std::string pause = "0s";
  bool again = false;
};

/// Samples of one worker: `32`, `8,16,32`, or `32..128`, which doubles.
struct Sizes {
  std::vector<int> lbs;
  int up_to = 0;  // end of a range; 0: none was given
};

base::Error bad_lbs(const std::string& text) {
  return option_error("--lbs", fmt::format("found {}, expected a size, a list or a range: 32, or 8,16,32, or 32..128",
                                           base::quote(text)));
}

Result<int> parse_size(std::string_view text, const std::string& whole) {
  const auto number = base::parse_integer(base::trim(text));
  if (!number.ok() || *number < 1 || *number > kUnbounded) return bad_lbs(whole);
  return static_cast<int>(*number);
}

Result<Sizes> parse_sizes(const std::string& text) {
  Sizes sizes;
  if (text.empty()) return sizes;
  if (const auto dots = text.find(".."); dots != std::string::npos) {
    YOKE_TRY(int size, parse_size(std::string_view(text).substr(0, dots), text));
    YOKE_TRY(sizes.up_to, parse_size(std::string_view(text).substr(dots + 2), text));
    if (sizes.up_to < size) return bad_lbs(text);
    for (; size <= sizes.up_to; size *= 2) sizes.lbs.push_back(size);
    return sizes;
  }
  for (const auto part : base::split(text, ",")) {
    YOKE_TRY(const int size, parse_size(part, text));
    sizes.lbs.push_back(size);
  }
  std::ranges::sort(sizes.lbs);
  sizes.lbs.erase(std::unique(sizes.lbs.begin(), sizes.lbs.end()), sizes.lbs.end());
  return sizes;
}

/// The job that a model's name stands for: synthetic samples of the usual shape.
Result<plan::Job> job_of_model(const std::string& model, const std::vector<std::string>& settings) {
  const bool small = model == "mlp" || model == "small_cnn";
  YOKE_TRY(
      base::Document document,
      base::parse_yaml(fmt::format("model: {{name: {}}}\ndata: {{name: synthetic, shape: {}, classes: {}}}\n"
                                   "batch: {{global: 1}}\n",
                                   base::yaml_text(model), small ? "[1, 28, 28]" : "[3, 224, 224]", small ? 10 : 1000),
                       "--model"));
  for (const auto& setting : settings) YOKE_CHECK(apply_setting(document, setting));
  return plan::parse_job(document);
}

Result<plan::Job> load_subject(const MeasureOptions& options) {
  if (options.model.empty() == options.job.empty()) {
    return option_error("--model", "expected either --model NAME or --job FILE, which says what is trained and how");
  }
  return options.job.empty() ? job_of_model(options.model, options.set) : load_job(options.job, options.set);
}

/// The devices that are measured, and those of this machine that run beside each.
struct Machine {
  std::vector<engine::DeviceSpec> measured;  // one for each node
  std::vector<engine::DeviceSpec> all;
  bool limit_given = true;  // else it is a share of the machine's memory
};

Result<Machine> find_devices(const MeasureOptions& options) {
  cluster::Cluster cluster = this_machine();
  if (!options.cluster.empty()) {
    YOKE_TRY(cluster, cluster::load_cluster(options.cluster));
    for (const auto& name : nodes_elsewhere(cluster)) {
      if (name == options.node) {
        return option_error("--node", fmt::format("the node {} is another machine; profile it there", name));
      }
      if (cluster.nodes().size() == 1) return option_error("--cluster", "no node of it is this machine");
      YOKE_TRY(cluster, cluster.without(name));
    }
  } else if (!options.node.empty()) {
    cluster::Node node{.name = options.node};
    auto renamed = cluster::Cluster::make({node});
    if (!renamed.ok()) return option_error("--node", renamed.error().message);
    cluster = *std::move(renamed);
  }
  if (!options.node.empty() && cluster.find(options.node) == nullptr) {
    return option_error("--node", cluster.require_node(options.node).error().message);
  }
  Machine machine{.measured = {}, .all = emulated_devices(cluster, usable_cores())};
  std::optional<base::Bytes> limit;
  if (!options.memory.empty()) {
    const auto bytes = base::parse_bytes(options.memory);
    if (!bytes.ok() || bytes->count == 0) {
      return option_error("--memory", fmt::format("found {}, expected a size, e.g. 2GB", base::quote(options.memory)));
    }
    limit = *bytes;
  }
  const std::int64_t share = memory_share(static_cast<int>(machine.all.size()));
  for (auto& device : machine.all) {
    if (limit) device.memory_bytes = limit->count;
    if (!device.memory_bytes) machine.limit_given = false;
    device.memory_bytes = device.memory_bytes.value_or(share);
    const bool wanted = options.node.empty() || device.id.node == options.node;
    if (wanted && device.id.index == 0) machine.measured.push_back(device);
  }
  return machine;
}

/// Tells how the whole command goes.
class Display {
 public:
  /// `nodes` are measured one by one, and then perhaps the links between them.
  Display(const std::string& model, std::size_t nodes, bool links, Context& context)
      : nodes_left_(static_cast<int>(nodes)), links_(links ? 1 : 0), context_(context) {
    start_progress(progress_, {.label = "profile " + model, .unit = "measurements"}, context);
  }

  void begin_node(const std::string& node) {
    done_before_ += total_of_node_;
    node_ = node;
    --nodes_left_;
  }
  void begin_links() {
    done_before_ += total_of_node_;
    total_of_node_ = 0;
    progress_->set_total(done_before_ + links_);
    progress_->update(done_before_, "links");
  }
  void show(int done, int total, const std::string& next) {
    total_of_node_ = total;
    // Nodes to come are taken to be like this one.
    progress_->set_total(done_before_ + total * (1 + nodes_left_) + links_);
    progress_->update(done_before_ + done, next.empty() ? node_ : fmt::format("{}: {}", node_, next));
  }
  void note(const std::string& note) {
    make_room();
    context_.log.warning("{}", note);
    notes.push_back(note);
  }
  /// Before anything else is printed.
  void make_room() { progress_->clear(); }
  void finish(bool whole) {
    if (whole) progress_->update(done_before_ + total_of_node_ + links_);
    progress_->finish();
  }

  std::vector<std::string> notes;

 private:
  int nodes_left_;
  const int links_;
  Context& context_;
  std::optional<base::Progress> progress_;
  std::string node_;
  int done_before_ = 0;
  int total_of_node_ = 0;
};

/// Passes on how a node goes, and hears Ctrl-C.
class Watcher final : public profiler::Observer {
 public:
  Watcher(Display& display, const StopSignals& signals) : display_(display), signals_(signals) {}
  void on_progress(int done, int total, const std::string& next) override { display_.show(done, total, next); }
  void on_note(const std::string& note) override { display_.note(note); }
  bool stop_requested() override { return signals_.count() > 0; }

 private:
  Display& display_;
  const StopSignals& signals_;
};

profile::ProfileSet set_of(const profiler::Report& report) {
  profile::ProfileSet set{.model = report.model, .nodes = {report.node}, .buckets = report.buckets, .comm = {}};
  std::erase_if(set.nodes.front().by_lbs, [&](const auto& entry) {
    return std::ranges::find(report.asked, entry.first) == report.asked.end() && entry.second.max_vsw != 0;
  });
  return set;
}

Json to_json(const profile::LayerGraph& graph, int lbs) {
  Json layers = Json::array();
  for (const auto& layer : graph.layers()) {
    layers.push_back({{"id", layer.id},
                      {"forward_ms", layer.forward_ms},
                      {"backward_ms", layer.backward_ms},
                      {"activation_bytes", layer.activation_bytes()},
                      {"parameter_bytes", layer.parameter_bytes},
                      {"update_ms", layer.update_ms}});
  }
  Json json{{"lbs", lbs}, {"layers", std::move(layers)}};
  if (const auto& confidence = graph.confidence()) {
    json["spread"] = confidence->spread;
    json["count"] = confidence->count;
    json["noisy"] = confidence->noisy;
  }
  return json;
}

Json to_json(const profiler::Report& report, const std::set<Part>& parts) {
  Json json{{"node", report.node.node},
            {"measured", report.measured},
            {"kept", report.kept},
            {"interrupted", report.interrupted},
            {"seconds", report.seconds}};
  if (parts.contains(Part::kMemory) || parts.contains(Part::kCompute)) json["profile"] = cli::to_json(set_of(report));
  if (parts.contains(Part::kBuckets)) {
    json["buckets_mib"] = report.buckets.mebibytes;
    json["recommended_sync"] = report.sync;
    json["recommended_sync_reason"] = report.sync_reason;
  }
  if (parts.contains(Part::kLayers)) {
    json["layers"] = Json::array();
    for (const auto& [lbs, graph] : report.layers) json["layers"].push_back(to_json(graph, lbs));
  }
  return json;
}

std::string bytes_text(std::int64_t count) {
  return base::format(base::Bytes{count});
}

void print_memory(const profile::ProfileSet& set, std::ostream& out) {
  using Align = Table::Align;
  Table table({{"lbs", Align::kRight},
               {"max vsw", Align::kRight},
               {"limit", Align::kRight},
               {"weights", Align::kRight},
               {"gradients", Align::kRight},
               {"optimizer", Align::kRight},
               {"each worker", Align::kRight},
               {""}});
  for (const auto& [lbs, measured] : set.nodes.front().by_lbs) {
    if (!measured.max_vsw || !measured.total_memory) continue;
    const auto& parts = measured.memory;
    const auto part = [&](std::int64_t profile::MemoryParts::*member) {
      return parts ? bytes_text((*parts).*member) : std::string("-");
    };
    std::string remark = "does not fit";
    if (parts && *measured.max_vsw > 0) remark = parts->capped ? "more were not tried" : "tried; one more was refused";
    table.add({std::to_string(lbs), std::to_string(*measured.max_vsw), bytes_text(measured.total_memory->count),
               part(&profile::MemoryParts::weights), part(&profile::MemoryParts::gradients),
               part(&profile::MemoryParts::optimizer), part(&profile::MemoryParts::worker), remark});
  }
  if (!table.empty()) out << table.to_string() << '\n';
}

void print_layers(const std::map<int, profile::LayerGraph>& graphs, std::ostream& out) {
  using Align = Table::Align;
  for (const auto& [lbs, graph] : graphs) {
    double longest = 0;
    for (const auto& layer : graph.layers()) longest = std::max(longest, layer.forward_ms + layer.backward_ms);
    Table table({{"layer"},
                 {"forward ms", Align::kRight},
                 {"backward ms", Align::kRight},
                 {"update ms", Align::kRight},
                 {"puts out", Align::kRight},
                 {"parameters", Align::kRight},
                 {""}});
    for (const auto& layer : graph.layers()) {
      const double both = layer.forward_ms + layer.backward_ms;
      table.add({layer.id, fmt::format("{:.2f}", layer.forward_ms), fmt::format("{:.2f}", layer.backward_ms),
                 fmt::format("{:.2f}", layer.update_ms),
                 bytes_text(static_cast<std::int64_t>(layer.activation_bytes())),
                 bytes_text(static_cast<std::int64_t>(layer.parameter_bytes)), bar(longest > 0 ? both / longest : 0)});
    }
    const bool noisy = graph.confidence() && graph.confidence()->noisy;
    out << fmt::format("layers with {} samples{}\n", lbs, noisy ? " (noisy)" : "") << table.to_string() << '\n';
  }
}

void print(const profiler::Report& report, const std::set<Part>& parts, std::ostream& out) {
  const profile::ProfileSet set = set_of(report);
  if (parts.contains(Part::kMemory)) print_memory(set, out);
  if (parts.contains(Part::kCompute)) {
    print_nodes(set, out);
    out << '\n';
  }
  if (parts.contains(Part::kBuckets)) {
    print_buckets(report.buckets, out);
    out << fmt::format("recommended sync: {}\n\n", report.sync_reason);
  }
  if (parts.contains(Part::kLayers)) print_layers(report.layers, out);
  out << fmt::format("{}: {} measured, {} kept, in {}\n", report.node.node, report.measured, report.kept,
                     base::format_seconds(report.seconds));
}

Result<profiler::Request> make_request(const MeasureOptions& options, std::set<Part> parts, Machine& machine) {
  profiler::Request request;
  YOKE_TRY(request.subject.job, load_subject(options));
  const bool dynamic = options.mode == "dynamic";
  if (!options.mode.empty() && !dynamic && options.mode != "static") {
    const std::vector<std::string> names{"static", "dynamic"};
    return option_error("--mode", fmt::format("found {}, expected static or dynamic{}", base::quote(options.mode),
                                              base::did_you_mean(options.mode, names)));
  }
  YOKE_TRY(const Sizes sizes, parse_sizes(options.lbs));
  const bool needs_sizes = parts.contains(Part::kMemory);
  if (needs_sizes && sizes.lbs.empty()) {
    return option_error("--lbs", "found none, expected the local batch sizes to measure, e.g. 32 or 32..128");
  }
  request.lbs = sizes.lbs;
  if (dynamic) request.search_up_to = sizes.up_to > 0 ? sizes.up_to : kUnbounded;
  request.parts = std::move(parts);
  request.out = options.out.empty() ? "profiles/" + request.subject.job.model.name : options.out;
  request.again = options.again;
  const auto pause = base::parse_duration(options.pause);
  if (!pause.ok()) return option_error("--pause", pause.error().message);
  request.pause = *pause;
  if (options.most_vsw && *options.most_vsw < 1) {
    return option_error("--most-vsw", fmt::format("found {}, expected at least 1", *options.most_vsw));
  }
  // More workers than cores gain nothing on a processor; the curve is known from a few.
  const int cores = machine.measured.front().threads;
  request.compute_vsw = options.most_vsw.value_or(std::max(4, 2 * cores));
  request.most_vsw = options.most_vsw.value_or(machine.limit_given ? kMostVsw : request.compute_vsw);
  return request;
}

/// What a command came to, over all nodes.
struct Outcome {
  Json nodes = Json::array();
  std::vector<std::string> notes;
  bool interrupted = false;
  std::optional<profile::CommProfile> comm;
};

/// What is left of `budget` when a node begins is shared by those that are not yet measured, but for `links`.
Status measure_nodes(profiler::Request& request, const Machine& machine, profiler::Budget& budget, base::Duration links,
                     Display& display, Outcome& outcome, Context& context) {
  const StopSignals signals(StopSignals::Second::kEnds);
  Watcher watcher(display, signals);
  auto nodes_left = static_cast<std::int64_t>(machine.measured.size());
  for (const auto& device : machine.measured) {
    if (outcome.interrupted) break;
    request.budget = std::max(base::Duration::zero(), budget.left() - links) / nodes_left--;
    std::vector<engine::DeviceSpec> neighbours = machine.all;
    std::erase_if(neighbours, [&](const auto& other) { return other.id == device.id; });
    ProfilingChildren children(std::move(neighbours), context);
    display.begin_node(device.id.node);
    request.subject.device = device;
    auto measured = profiler::measure(request, children, watcher, context.clock);
    if (!measured.ok()) return at_option(measured.error(), {"--lbs", "--model"});
    budget.exclude(request.pause);
    outcome.interrupted = measured->interrupted;
    if (context.json) {
      outcome.nodes.push_back(to_json(*measured, request.parts));
    } else {
      display.make_room();
      print(*measured, request.parts, context.out);
    }
  }
  return {};
}

/// The links between the devices of this machine.
Status measure_links(const profiler::Request& request, const MeasureOptions& given, base::Duration time,
                     Display& display, Outcome& outcome, Context& context) {
  const std::string file = base::join_path(request.out, "comm.json");
  if (base::exists(file) && !request.again) return {};
  YOKE_CHECK(check_comm_folder(request.out));
  CommOptions options;
  options.model = request.subject.job.model.name;
  options.out = request.out;
  options.cluster = given.cluster;
  options.only_here = true;
  options.budget = fmt::format("{}s", base::exact(base::to_seconds(time)));
  display.begin_links();
  YOKE_TRY(const CommOutcome links, profile_comm(options, context));
  outcome.interrupted = links.interrupted;
  if (links.interrupted) return {};
  if (const auto saved = save_comm_profile(request.out, links.profile); !saved.ok()) return saved.error();
  outcome.comm = links.profile;
  if (context.json) return {};
  display.make_room();
  context.out << "links\n" << describe_links(links.profile) << '\n';
  return {};
}

Status run_measure(const std::set<Part>& parts, bool links, const MeasureOptions& options, Context& context) {
  YOKE_TRY(Machine machine, find_devices(options));
  YOKE_TRY(profiler::Request request, make_request(options, parts, machine));
  const auto whole = base::parse_duration(options.budget);
  if (!whole.ok()) return option_error("--budget", whole.error().message);
  if (*whole <= base::Duration::zero()) return option_error("--budget", "found 0, expected a time > 0, e.g. 150s");
  profiler::Budget budget(*whole, context.clock);
  const auto began = context.clock.now();
  Outcome outcome;
  const bool linked = links && machine.all.size() > 1;
  const base::Duration for_links = linked ? time_for_links(*whole) : base::Duration::zero();
  Display display(request.subject.job.model.name, machine.measured.size(), linked, context);
  YOKE_CHECK(measure_nodes(request, machine, budget, for_links, display, outcome, context));
  if (linked && !outcome.interrupted) {
    YOKE_CHECK(measure_links(request, options, for_links, display, outcome, context));
  }
  display.finish(!outcome.interrupted);
  outcome.notes = display.notes;
  if (outcome.interrupted) context.exit_code = kExitInterrupted;
  const double seconds = base::to_seconds(context.clock.now() - began);
  if (context.json) {
    Json json{{"model", request.subject.job.model.name},
              {"out", request.out},
              {"interrupted", outcome.interrupted},
              {"seconds", seconds},
              {"notes", outcome.notes},
              {"nodes", std::move(outcome.nodes)}};
    if (outcome.comm) json["comm"] = profile::comm_json(*outcome.comm);
    print_json(context, json);
  } else if (outcome.interrupted) {
    context.out << "interrupted: what is complete is kept, the same command goes on\n";
  } else {
    context.out << fmt::format("profiles in {}, after {}\n", request.out, base::format_seconds(seconds));
  }
  return {};
}

}  // namespace

void add_profile_measurements(CLI::App& group, Action& chosen) {
  const auto add = [&](const std::string& name, const std::string& help, std::set<Part> parts, bool links = false) {
    const bool times = parts.contains(Part::kCompute) || parts.contains(Part::kLayers);
    const bool memory = parts.contains(Part::kMemory);
    add_command<MeasureOptions>(
        group, chosen, name, help,
        [&](Arguments& command, MeasureOptions& options) {
          command.option("--model", options.model, "a model by name, on synthetic samples");
          command.option("--job", options.job, "or a job file: its model, data, optimizer and precision");
          command.repeated("--set", options.set, "key=value: changes the job, e.g. data.shape=[3,64,64]");
          command.option("--out", options.out, "profile folder (default: profiles/<model>)");
          command.option("--cluster", options.cluster, "cluster file; its nodes on this machine are measured");
          command.option("--node", options.node,
                         "only this node of it; without --cluster: what this machine is called");
          if (times || memory) {
            command.option("--lbs", options.lbs,
                           memory ? "local batch sizes: 32, or 8,16,32, or 32..128 (doubles)"
                                  : "local batch sizes: 32, or 8,16,32, or 32..128 (default: those of the folder)");
            command.option("--most-vsw", options.most_vsw, "workers at once to try at most");
            command.option("--memory", options.memory,
                           "of a device, e.g. 2GB (default: the cluster file's, or a share "
                           "of the machine's)");
          }
          if (memory) {
            command.option("--mode", options.mode,
                           "static: these sizes only; dynamic: on to the largest that fits (or the end of the range)");
          }
          if (times || memory) {
            command.option("--budget", options.budget, "time for everything: slow steps are repeated less often");
          }
          if (times) {
            command.option("--pause", options.pause, "before each device, to let it cool down, e.g. 300s");
          }
          command.flag("--again", options.again, "measure also what the folder holds");
        },
        [parts, links](const MeasureOptions& options, Context& context) {
          return run_measure(parts, links, options, context);
        });
  };
  add("memory", "the most workers that fit a device's memory, by local batch size", {Part::kMemory});
  add("compute", "times of data, forward, backward and update, by local batch size and workers", {Part::kCompute});
  add("layers", "time and size of every layer; PipeDream graph and charts", {Part::kLayers});
  add("bucket", "gradient buckets and the weight sync they suggest", {Part::kBuckets});
  add("all", "everything on this machine, and the links between its devices",
      {Part::kMemory, Part::kCompute, Part::kLayers, Part::kBuckets}, true);
  add_profile_children(group, chosen);
}

}  // namespace yoke::cli
