// `yoke profile`: the group of profile commands. `show` prints what people want to look at first.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/command.h"
#include "yoke/cli/inputs.h"
#include "yoke/cli/profile.h"
#include "yoke/cli/profile_comm.h"
#include "yoke/cli/profile_estimate.h"
#include "yoke/cli/profile_sync.h"
#include "yoke/cli/table.h"
#include "yoke/profile/layer_graph.h"
#include "yoke/profile/profile.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using Align = Table::Align;

struct ShowOptions {
  std::string path;
};

std::string ms(double milliseconds) {
  return fmt::format("{:.1f}", milliseconds);
}

/// Samples per second of a device that runs this many workers at once, communication left out.
double samples_per_second(int lbs, const profile::ComputeSample& sample) {
  return lbs * sample.vsw * 1000.0 / (sample.forward_ms + sample.backward_ms);
}

/// With a word where its figures were not measured.
std::string shown_name(const profile::NodeProfile& node) {
  return base::printable(node.node, 60) + (node.source == profile::Source::kEstimate ? " (estimate)" : "");
}

}  // namespace

void print_nodes(const profile::ProfileSet& profiles, std::ostream& out) {
  double fastest = 0;
  for (const auto& node : profiles.nodes) {
    for (const auto& [lbs, measured] : node.by_lbs) {
      for (const auto& sample : measured.compute) fastest = std::max(fastest, samples_per_second(lbs, sample));
    }
  }
  Table table({{"node"},
               {"device"},
               {"lbs", Align::kRight},
               {"max vsw", Align::kRight},
               {"memory", Align::kRight},
               {"vsw", Align::kRight},
               {"data ms", Align::kRight},
               {"forward", Align::kRight},
               {"backward", Align::kRight},
               {"update", Align::kRight},
               {"copy", Align::kRight},
               {"samples/s", Align::kRight},
               {""}});
  for (const auto& node : profiles.nodes) {
    for (const auto& [lbs, measured] : node.by_lbs) {
      const std::string limit = measured.max_vsw ? std::to_string(*measured.max_vsw) : "-";
      const std::string memory = measured.total_memory ? base::format(*measured.total_memory) : "-";
      if (measured.compute.empty())
        table.add({shown_name(node), base::printable(node.device_type, 40), std::to_string(lbs), limit, memory, "-",
                   "-", "-", "-", "-", "-", "-", ""});
      for (const auto& sample : measured.compute) {
        const double rate = samples_per_second(lbs, sample);
        table.add({shown_name(node), base::printable(node.device_type, 40), std::to_string(lbs), limit, memory,
                   std::to_string(sample.vsw), ms(sample.data_ms), ms(sample.forward_ms), ms(sample.backward_ms),
                   ms(sample.update_ms), ms(sample.copy_ms), fmt::format("{:.0f}", rate), bar(rate / fastest, 20)});
      }
    }
  }
  out << table.to_string();
}

void print_buckets(const profile::BucketProfile& buckets, std::ostream& out) {
  if (buckets.mebibytes.empty()) return;
  const double largest = *std::max_element(buckets.mebibytes.begin(), buckets.mebibytes.end());
  Table table({{"bucket", Align::kRight}, {"MiB", Align::kRight}, {""}});
  for (std::size_t i = 0; i < buckets.mebibytes.size(); ++i) {
    table.add({std::to_string(i), fmt::format("{:.2f}", buckets.mebibytes[i]), bar(buckets.mebibytes[i] / largest)});
  }
  out << "\ngradient buckets, in the order the backward pass fills them\n" << table.to_string();
}

namespace {

void print_comm(const profile::CommProfile& comm, std::ostream& out) {
  const auto print = [&](std::string_view name, const std::vector<profile::CommPoint>& points) {
    if (points.empty()) return;
    const bool estimate = comm.source == profile::Source::kEstimate;
    Table table({{"bytes", Align::kRight},
                 {"ideal ms", Align::kRight},
                 {estimate ? "estimated ms" : "measured ms", Align::kRight},
                 {"spread", Align::kRight},
                 {"of ideal speed", Align::kRight}});
    for (const auto& point : points) {
      const double share = point.measured_ms > 0 ? point.ideal_ms / point.measured_ms : 0;
      table.add({point.bytes ? base::format(base::Bytes{*point.bytes}) : "-", fmt::format("{:.2f}", point.ideal_ms),
                 fmt::format("{:.2f}", point.measured_ms),
                 point.spread_ms && point.measured_ms > 0
                     ? fmt::format("{:.0f}%", *point.spread_ms / point.measured_ms * 100)
                     : "-",
                 fmt::format("{:.0f}%", share * 100)});
    }
    out << fmt::format("\nall-reduce {}{}\n", name, estimate ? " (estimate)" : "") << table.to_string();
  };
  print("inside a node", comm.intra);
  print("between nodes", comm.inter);
  if (!comm.links.empty()) out << "\nlinks\n" << describe_links(comm);
}

Json to_json(const profile::ComputeSample& sample, int lbs) {
  Json json{{"vsw", sample.vsw},
            {"total_ms", sample.total_ms},
            {"data_ms", sample.data_ms},
            {"forward_ms", sample.forward_ms},
            {"backward_ms", sample.backward_ms},
            {"update_ms", sample.update_ms},
            {"copy_ms", sample.copy_ms},
            {"bn_sync_ms", sample.bn_sync_ms},
            {"samples_per_second", samples_per_second(lbs, sample)}};
  if (sample.round_ms) json["round_ms"] = *sample.round_ms;
  if (const auto& confidence = sample.confidence) {
    json["spread"] = confidence->spread;
    json["count"] = confidence->count;
    json["noisy"] = confidence->noisy;
  }
  return json;
}

Json to_json(const profile::MemoryParts& parts) {
  return {{"weights", parts.weights},   {"gradients", parts.gradients}, {"optimizer", parts.optimizer},
          {"buffers", parts.buffers},   {"worker", parts.worker},       {"passes", parts.passes},
          {"building", parts.building}, {"verified", parts.verified},   {"capped", parts.capped}};
}

}  // namespace

Json to_json(const profile::ProfileSet& profiles) {
  Json nodes = Json::array();
  for (const auto& node : profiles.nodes) {
    Json sizes = Json::array();
    for (const auto& [lbs, measured] : node.by_lbs) {
      Json samples = Json::array();
      for (const auto& sample : measured.compute) samples.push_back(to_json(sample, lbs));
      Json size{{"lbs", lbs}, {"compute", std::move(samples)}};
      if (measured.max_vsw) size["max_vsw"] = *measured.max_vsw;
      if (measured.total_memory) size["total_memory"] = measured.total_memory->count;
      if (measured.memory) size["memory"] = to_json(*measured.memory);
      sizes.push_back(std::move(size));
    }
    nodes.push_back({{"node", node.node},
                     {"device_type", node.device_type},
                     {"source", profile::to_string(node.source)},
                     {"local_batch_sizes", std::move(sizes)}});
  }
  return {{"model", profiles.model},
          {"nodes", std::move(nodes)},
          {"buckets_mib", profiles.buckets.mebibytes},
          {"source", profile::to_string(profiles.source())},
          {"all_reduce_points", {{"intra", profiles.comm.intra.size()}, {"inter", profiles.comm.inter.size()}}},
          {"comm", profile::comm_json(profiles.comm)}};
}

namespace {

base::Status show_graph(const profile::LayerGraph& graph, Context& context) {
  double compute_ms = 0, parameters = 0, longest = 0;
  for (const auto& layer : graph.layers()) {
    compute_ms += layer.forward_ms + layer.backward_ms;
    parameters += layer.parameter_bytes;
    longest = std::max(longest, layer.forward_ms + layer.backward_ms);
  }
  if (context.json) {
    Json layers = Json::array();
    for (const auto& layer : graph.layers()) {
      layers.push_back({{"id", layer.id},
                        {"description", layer.description},
                        {"forward_ms", layer.forward_ms},
                        {"backward_ms", layer.backward_ms},
                        {"activation_bytes", layer.activation_bytes()},
                        {"parameter_bytes", layer.parameter_bytes},
                        {"update_ms", layer.update_ms}});
    }
    print_json(context, {{"layers", std::move(layers)},
                         {"edges", graph.edges().size()},
                         {"lbs", graph.lbs() ? Json(*graph.lbs()) : Json()},
                         {"source", profile::to_string(graph.source())},
                         {"compute_ms", compute_ms},
                         {"parameter_bytes", parameters}});
    return {};
  }
  Table table({{"layer"},
               {"what"},
               {"forward ms", Align::kRight},
               {"backward ms", Align::kRight},
               {"update ms", Align::kRight},
               {"activations", Align::kRight},
               {"parameters", Align::kRight},
               {""}});
  for (const int index : graph.topological_order()) {
    const auto& layer = graph.layers()[static_cast<std::size_t>(index)];
    const auto bytes = [](double count) {
      return base::format(base::Bytes{static_cast<std::int64_t>(std::min(count, 9e18))});
    };
    const double total = layer.forward_ms + layer.backward_ms;
    table.add({base::printable(layer.id, 60), base::printable(layer.description, 40),
               fmt::format("{:.3f}", layer.forward_ms), fmt::format("{:.3f}", layer.backward_ms),
               fmt::format("{:.3f}", layer.update_ms), bytes(layer.activation_bytes()), bytes(layer.parameter_bytes),
               bar(longest > 0 ? total / longest : 0)});
  }
  if (graph.source() == profile::Source::kEstimate) context.out << "estimated from data sheets, not measured\n";
  context.out << table.to_string()
              << fmt::format("{} layers, {} edges, {} of compute a minibatch, {} of parameters\n", graph.size(),
                             graph.edges().size(), base::format_seconds(compute_ms / 1000),
                             base::format(base::Bytes{static_cast<std::int64_t>(std::min(parameters, 9e18))}));
  return {};
}

base::Status run_show(const ShowOptions& options, Context& context) {
  YOKE_TRY(const auto found, load_any_profile(options.path, context));
  if (found.graph && !found.profiles) return show_graph(*found.graph, context);
  const profile::ProfileSet& profiles = *found.profiles;
  if (context.json) {
    print_json(context, cli::to_json(profiles));
    return {};
  }
  context.out << fmt::format("profiles of {} on {} nodes\n", base::printable(profiles.model, 100),
                             profiles.nodes.size());
  if (const auto estimates = profiles.estimated_nodes(); !estimates.empty()) {
    context.out << fmt::format("estimated from data sheets, not measured: {}\n", base::join_words(estimates));
  }
  context.out << "\n";
  print_nodes(profiles, context.out);
  print_buckets(profiles.buckets, context.out);
  print_comm(profiles.comm, context.out);
  if (found.graph) {
    context.out << "\nlayers\n";
    return show_graph(*found.graph, context);
  }
  return {};
}

}  // namespace

void add_profile(CLI::App& app, Action& chosen) {
  CLI::App& group = add_group(app, "profile", "measure a model and the machines, and look at what was measured");
  add_profile_measurements(group, chosen);
  add_profile_comm(group, chosen);
  add_profile_sync(group, chosen);
  add_profile_estimate(group, chosen);
  add_command<ShowOptions>(
      group, chosen, "show", "print a summary of profiles",
      [](Arguments& command, ShowOptions& options) {
        command.required("path", options.path, "Yoke profile folder, JABAS/IIDP config JSON, or PipeDream graph.txt");
      },
      run_show);
}

}  // namespace yoke::cli
