#include "yoke/cli/profile_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/link_survey.h"
#include "yoke/cli/table.h"
#include "yoke/comm/probe/link_probe.h"
#include "yoke/plan/buckets.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using base::Result;
using base::Status;
using models::ModelCount;
using models::OpCount;
using profile::DeviceSheet;
using profile::Precision;
using profile::Source;

/// Allocators round up and libraries need room of their own: so much more than the activations alone.
constexpr double kAllocation = 1.25;
/// The driver's context and the kernels' code.
constexpr double kContextBytes = 1e9;
/// Weights, gradients and momentum; VSWs share them.
constexpr double kCopiesOfWeights = 3;
/// The update reads weights, gradients and momentum, and writes weights and momentum.
constexpr double kUpdatePasses = 5;
/// Ranks of the all-reduces that are estimated; the planner scales them to any number.
constexpr int kRanks = 4;

/// One pass over some ops.
struct PassTime {
  double busy = 0;
  int kernels = 0;

  /// Workers that run at once keep the device busy one after the other, but get started beside each other.
  double seconds(int workers) const { return workers * busy + kernels * profile::kKernelSeconds; }
};

profile::WorkKind kind_of(models::OpKind kind) {
  switch (kind) {
    case models::OpKind::kMatrix:
      return profile::WorkKind::kMatrix;
    case models::OpKind::kConvolution3:
      return profile::WorkKind::kConvolution3;
    case models::OpKind::kMoving:
      break;
  }
  return profile::WorkKind::kMoving;
}

void add(PassTime& pass, const std::vector<OpCount>& ops, int lbs, const DeviceSheet& device, Precision precision) {
  for (const auto& op : ops) {
    pass.busy += profile::busy_seconds(
        {.kind = kind_of(op.kind), .kernels = op.kernels, .flops = op.flops.of(lbs), .bytes = op.bytes.of(lbs)}, device,
        precision);
    pass.kernels += op.kernels;
  }
}

double weight_bytes(const ModelCount& model) {
  double bytes = 0;
  for (const auto& block : model.blocks) {
    bytes += std::accumulate(block.parameter_bytes.begin(), block.parameter_bytes.end(), 0.0);
  }
  return bytes;
}

/// One worker's activations, with what allocators and libraries take beside them.
double worker_bytes(const ModelCount& model, int lbs, Precision precision) {
  double bytes = model.input_bytes.of(lbs);
  for (const auto& block : model.blocks) bytes += block.activation_bytes.of(lbs);
  return bytes * kAllocation / (precision == Precision::kHalf ? 2 : 1);
}

std::size_t weight_count(const ModelCount& model) {
  std::size_t count = 0;
  for (const auto& block : model.blocks) count += block.parameter_bytes.size();
  return count;
}

profile::LocalBatchProfile estimate_batch(const ModelCount& model, int lbs, const DeviceSheet& device,
                                          Precision precision) {
  profile::LocalBatchProfile batch;
  const int most = most_workers(model, lbs, device, precision);
  batch.max_vsw = most;
  batch.total_memory = base::Bytes{static_cast<std::int64_t>(device.memory_bytes)};
  // The counts that IIDP measures.
  for (const int vsw : {1, most >= 4 ? most / 2 : 1, most}) {
    if (vsw < 1 || vsw > most || (!batch.compute.empty() && batch.compute.back().vsw >= vsw)) continue;
    batch.compute.push_back(estimate_sample(model, lbs, vsw, device, precision));
  }
  return batch;
}

Result<profile::LayerGraph> estimate_layers(const ModelCount& model, int lbs, const DeviceSheet& device,
                                            Precision precision) {
  std::vector<profile::Layer> layers;
  std::vector<profile::Edge> edges;
  for (const auto& block : model.blocks) {
    PassTime forward, backward;
    add(forward, block.forward, lbs, device, precision);
    add(backward, block.backward, lbs, device, precision);
    layers.push_back(
        {.id = block.name,
         .description = fmt::format("estimate for {}", device.type),
         .forward_ms = 1000 * forward.seconds(1),
         .backward_ms = 1000 * backward.seconds(1),
         .output_bytes = {block.output_bytes.of(lbs)},
         .parameter_bytes = std::accumulate(block.parameter_bytes.begin(), block.parameter_bytes.end(), 0.0)});
    const int index = static_cast<int>(layers.size()) - 1;
    if (index > 0) edges.push_back({index - 1, index});
  }
  YOKE_TRY(const profile::LayerGraph graph, profile::LayerGraph::make(std::move(layers), std::move(edges)));
  return graph.with_source(Source::kEstimate);
}

Result<profile::BucketProfile> cut_buckets(const ModelCount& model) {
  std::vector<plan::Parameter> parameters;
  for (const auto& block : model.blocks) {
    for (const double bytes : block.parameter_bytes) {
      parameters.push_back({block.name, static_cast<std::int64_t>(bytes / sizeof(float))});
    }
  }
  YOKE_TRY(const auto buckets, plan::cut_into_buckets(parameters));
  return plan::to_profile(buckets);
}

std::vector<profile::CommPoint> estimate_reduces(double bytes_per_s) {
  std::vector<profile::CommPoint> points;
  for (const std::size_t bytes : comm::usual_probe_sizes()) {
    const double ideal = ideal_ms(static_cast<double>(bytes), kRanks, {bytes_per_s});
    points.push_back({.ideal_ms = ideal,
                      .measured_ms = 1000 * profile::kAllReduceSeconds + ideal / profile::kAllReduceShare,
                      .bytes = static_cast<std::int64_t>(bytes)});
  }
  return points;
}

struct EstimateOptions {
  std::string device;
  std::string model;
  std::string path;
  std::vector<std::string> lbs{"32"};
  int classes = 1000;
  std::vector<int> input;
  std::string node;
  std::string precision = "fp32";
  std::string network = "10Gbit/s";
  std::string out = "profiles";
};

/// `32,64` or `32..128`, which doubles.
Result<std::vector<int>> parse_batches(const std::vector<std::string>& texts) {
  constexpr std::int64_t kMost = 1'000'000;
  std::vector<int> sizes;
  for (const auto& text : texts) {
    const auto parts = base::split(text, "..");
    const auto least = base::parse_integer(parts.front());
    const auto most = base::parse_integer(parts.back());
    if (parts.size() > 2 || !least.ok() || !most.ok() || *least < 1 || *most < *least || *most > kMost) {
      return option_error(
          "--lbs", fmt::format("found {}, expected samples of a worker, e.g. 32, 32,48 or 32..128", base::quote(text)));
    }
    for (std::int64_t size = *least; size <= *most; size *= 2) sizes.push_back(static_cast<int>(size));
  }
  std::ranges::sort(sizes);
  const auto again = std::ranges::unique(sizes);
  sizes.erase(again.begin(), again.end());
  return sizes;
}

Result<Precision> parse_precision(const std::string& text) {
  if (text == "fp32") return Precision::kFp32;
  if (text == "bf16" || text == "fp16") return Precision::kHalf;
  return option_error("--precision", fmt::format("found {}, expected fp32, bf16 or fp16", base::quote(text)));
}

/// What was measured is not overwritten by what was guessed.
Status save(const Estimate& estimate, const std::string& model, const std::string& folder,
            std::vector<std::string>& files) {
  const std::string node_path = base::join_path(folder, "nodes/" + estimate.node.node + ".json");
  if (base::exists(node_path)) {
    YOKE_TRY(const std::string text, base::read_file(node_path));
    YOKE_TRY(const profile::NodeFile old, profile::parse_node_file(text, node_path));
    if (old.profile.source == Source::kMeasured) {
      return base::input_error(
          "found a measured profile, expected none that an estimate would replace; give the "
          "estimate another --node or --out",
          {.file = node_path});
    }
  }
  profile::ProfileSet set{.model = model, .nodes = {estimate.node}};
  const bool others = base::is_folder(base::join_path(folder, "nodes")) &&
                      !base::list_folder(base::join_path(folder, "nodes"))->empty();
  if (others) {
    YOKE_TRY(const profile::ProfileSet old, profile::load_profiles(folder));
    if (old.model != model) {
      return base::input_error(
          fmt::format("found profiles of the model {}, expected {}; keep one folder for each model",
                      base::quote(old.model), base::quote(model)),
          {.file = folder});
    }
  }
  if (!base::exists(base::join_path(folder, "buckets.json"))) set.buckets = estimate.buckets;
  YOKE_TRY(const profile::CommProfile links, profile::load_comm(folder));
  if (links == profile::CommProfile{} || links.source == Source::kEstimate) set.comm = estimate.comm;
  YOKE_CHECK(profile::save_profiles(folder, set));
  files.push_back(node_path);
  if (!set.buckets.mebibytes.empty()) files.push_back(base::join_path(folder, "buckets.json"));
  if (set.comm != profile::CommProfile{}) files.push_back(base::join_path(folder, "comm.json"));
  const std::string layers_path = base::join_path(folder, "layers.json");
  if (base::exists(layers_path)) {
    YOKE_TRY(const profile::LayerGraph old, profile::load_layers(folder));
    if (old.source() == Source::kMeasured) return {};
  }
  YOKE_CHECK(profile::save_layers(folder, estimate.layers));
  files.push_back(layers_path);
  return {};
}

Status list_devices(Context& context) {
  if (context.json) {
    Json devices = Json::array();
    for (const auto& device : profile::known_devices()) {
      devices.push_back({{"device", device.name},
                         {"type", device.type},
                         {"fp32_flops", device.fp32_flops},
                         {"half_flops", device.half_flops},
                         {"memory_bytes_per_second", device.memory_bytes_per_s},
                         {"memory_bytes", device.memory_bytes},
                         {"host_bytes_per_second", device.host_bytes_per_s},
                         {"peer_bytes_per_second", device.peer_bytes_per_s}});
    }
    print_json(context, {{"devices", std::move(devices)}});
    return {};
  }
  using Align = Table::Align;
  Table table({{"device"},
               {"type"},
               {"fp32 TFLOPS", Align::kRight},
               {"half TFLOPS", Align::kRight},
               {"memory", Align::kRight},
               {"its speed", Align::kRight},
               {"to peers", Align::kRight}});
  for (const auto& device : profile::known_devices()) {
    table.add({std::string(device.name), std::string(device.type), fmt::format("{:.1f}", device.fp32_flops / 1e12),
               fmt::format("{:.1f}", device.half_flops / 1e12),
               base::format(base::Bytes{static_cast<std::int64_t>(device.memory_bytes)}),
               base::format(base::Bandwidth{device.memory_bytes_per_s}),
               base::format(base::Bandwidth{device.peer_bytes_per_s})});
  }
  context.out << table.to_string();
  return {};
}

Json to_json(const Estimate& estimate, const DeviceSheet& device, const std::vector<std::string>& files) {
  Json sizes = Json::array();
  for (const auto& [lbs, batch] : estimate.node.by_lbs) {
    Json samples = Json::array();
    for (const auto& sample : batch.compute) {
      samples.push_back({{"vsw", sample.vsw},
                         {"data_ms", sample.data_ms},
                         {"forward_ms", sample.forward_ms},
                         {"backward_ms", sample.backward_ms},
                         {"update_ms", sample.update_ms}});
    }
    sizes.push_back({{"lbs", lbs}, {"max_vsw", batch.max_vsw.value_or(0)}, {"compute", std::move(samples)}});
  }
  return {{"source", "estimate"},       {"device", device.name}, {"type", device.type},
          {"node", estimate.node.node}, {"files", files},        {"local_batch_sizes", std::move(sizes)}};
}

void print(const Estimate& estimate, const DeviceSheet& device, const std::vector<std::string>& files,
           std::ostream& out) {
  out << fmt::format("estimate, not a measurement: {} from its data sheet\n\n", device.type);
  using Align = Table::Align;
  Table table({{"lbs", Align::kRight},
               {"max vsw", Align::kRight},
               {"vsw", Align::kRight},
               {"forward", Align::kRight},
               {"backward", Align::kRight},
               {"update", Align::kRight},
               {"samples/s", Align::kRight}});
  for (const auto& [lbs, batch] : estimate.node.by_lbs) {
    if (batch.compute.empty()) table.add({std::to_string(lbs), "0", "-", "-", "-", "-", "-"});
    for (const auto& sample : batch.compute) {
      table.add({std::to_string(lbs), std::to_string(*batch.max_vsw), std::to_string(sample.vsw),
                 base::format_seconds(sample.forward_ms / 1000), base::format_seconds(sample.backward_ms / 1000),
                 base::format_seconds(sample.update_ms / 1000),
                 fmt::format("{:.0f}", lbs * sample.vsw * 1000 / (sample.forward_ms + sample.backward_ms))});
    }
  }
  out << table.to_string();
  out << fmt::format("\nin the cluster file: {{name: {}, type: {}, intra_bandwidth: {}, inter_bandwidth: {}}}\n",
                     estimate.node.node, device.type, base::exact(estimate.comm.intra_bandwidth->bytes_per_s),
                     base::exact(estimate.comm.inter_bandwidth->bytes_per_s));
  out << fmt::format("written: {}\n", base::join_words(files));
}

Status run_estimate(const EstimateOptions& options, Context& context) {
  if (options.device == "list") return list_devices(context);
  const auto device = profile::find_device(options.device);
  if (!device.ok()) return option_error("--device", device.error().message);
  if (options.model.empty()) return option_error("--model", "found none, expected the model to estimate");
  EstimateRequest request{.node = options.node.empty() ? options.device : options.node, .local_batch_sizes = {}};
  if (!base::is_plain_name(request.node)) {
    return option_error("--node", fmt::format("found {}, expected a name without blanks, commas and slashes",
                                              base::quote(request.node)));
  }
  YOKE_TRY(request.local_batch_sizes, parse_batches(options.lbs));
  YOKE_TRY(request.precision, parse_precision(options.precision));
  const auto network = base::parse_bandwidth(options.network);
  if (!network.ok() || network->bytes_per_s <= 0) {
    return option_error("--network",
                        fmt::format("found {}, expected a bandwidth, e.g. 10Gbit/s", base::quote(options.network)));
  }
  request.network_bytes_per_s = network->bytes_per_s;
  const auto counted = models::count_ops({.model = options.model,
                                          .classes = options.classes,
                                          .input_shape = {options.input.begin(), options.input.end()},
                                          .path = options.path});
  if (!counted.ok()) {
    base::Error error = counted.error();
    if (error.where.field == "input_shape") error.where.field = "--input";
    if (error.kind == base::ErrorKind::kInput && error.where.to_string().empty()) error.where.field = "--model";
    return error;
  }
  YOKE_TRY(const Estimate estimate, estimate_profile(*counted, *device, request));
  std::vector<std::string> files;
  YOKE_CHECK(save(estimate, options.model, options.out, files));
  if (context.json) {
    print_json(context, to_json(estimate, *device, files));
  } else {
    print(estimate, *device, files, context.out);
  }
  return {};
}

}  // namespace

profile::ComputeSample estimate_sample(const ModelCount& model, int lbs, int vsw, const DeviceSheet& device,
                                       Precision precision) {
  PassTime forward, backward;
  for (const auto& block : model.blocks) {
    add(forward, block.forward, lbs, device, precision);
    add(backward, block.backward, lbs, device, precision);
  }
  const double data = vsw * model.input_bytes.of(lbs) / (device.host_bytes_per_s * profile::kHostShare);
  const double update = kUpdatePasses * weight_bytes(model) / (device.memory_bytes_per_s * profile::kMemoryShare) +
                        static_cast<double>(weight_count(model)) * profile::kKernelSeconds;
  profile::ComputeSample sample{.vsw = vsw,
                                .data_ms = 1000 * data,
                                .forward_ms = 1000 * forward.seconds(vsw),
                                .backward_ms = 1000 * backward.seconds(vsw),
                                .update_ms = 1000 * update};
  sample.total_ms = sample.data_ms + sample.forward_ms + sample.backward_ms + sample.update_ms;
  return sample;
}

int most_workers(const ModelCount& model, int lbs, const DeviceSheet& device, Precision precision) {
  const double left = device.memory_bytes - kContextBytes - kCopiesOfWeights * weight_bytes(model);
  return static_cast<int>(std::clamp(left / worker_bytes(model, lbs, precision), 0.0, 1000.0));
}

Result<Estimate> estimate_profile(const ModelCount& model, const DeviceSheet& device, const EstimateRequest& request) {
  base::require(!request.local_batch_sizes.empty(), "estimate_profile: no local batch size");
  const int smallest = request.local_batch_sizes.front();
  if (most_workers(model, smallest, device, request.precision) < 1) {
    return base::infeasible_error(fmt::format(
        "a worker of {} samples of {} needs about {}, and {} has {} in all; try a smaller --lbs", smallest, model.model,
        base::format(base::Bytes{static_cast<std::int64_t>(worker_bytes(model, smallest, request.precision) +
                                                           kContextBytes + kCopiesOfWeights * weight_bytes(model))}),
        device.name, base::format(base::Bytes{static_cast<std::int64_t>(device.memory_bytes)})));
  }
  YOKE_TRY(profile::LayerGraph layers, estimate_layers(model, smallest, device, request.precision));
  Estimate estimate{.node = {.node = request.node, .device_type = std::string(device.type), .by_lbs = {}},
                    .layers = std::move(layers),
                    .buckets = {},
                    .comm = {.intra = estimate_reduces(device.peer_bytes_per_s),
                             .inter = estimate_reduces(request.network_bytes_per_s),
                             .intra_bandwidth = base::Bandwidth{device.peer_bytes_per_s},
                             .inter_bandwidth = base::Bandwidth{request.network_bytes_per_s}}};
  estimate.node.source = Source::kEstimate;
  estimate.comm.source = Source::kEstimate;
  for (const int lbs : request.local_batch_sizes) {
    estimate.node.by_lbs.emplace(lbs, estimate_batch(model, lbs, device, request.precision));
  }
  YOKE_TRY(estimate.buckets, cut_buckets(model));
  return estimate;
}

void add_profile_estimate(CLI::App& group, Action& chosen) {
  add_command<EstimateOptions>(
      group, chosen, "estimate", "guess the profile of a device that is not here from its data sheet",
      [](Arguments& command, EstimateOptions& options) {
        command.required("--device", options.device, "v100, p100, a100, ...; `list` shows all");
        command.option("--model", options.model, "a model of the zoo, or torchscript");
        command.option("--lbs", options.lbs, "samples of a worker: 32, 32,48 or 32..128");
        command.option("--classes", options.classes, "of the model");
        command.option("--input", options.input, "shape of a sample, e.g. 3,224,224 (default: the model's own)");
        command.option("--path", options.path, "TorchScript file");
        command.option("--node", options.node, "name of the node (default: the device's)");
        command.option("--precision", options.precision, "fp32, bf16 or fp16");
        command.option("--network", options.network, "bandwidth between hosts");
        command.option("--out", options.out, "profile folder");
      },
      run_estimate);
}

}  // namespace yoke::cli
