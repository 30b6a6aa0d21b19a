#include "yoke/cli/profile_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/base/units.h"
#include "yoke/cli/estimate.h"
#include "yoke/cli/table.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using base::Result;
using base::Status;
using profile::DeviceSheet;
using profile::Precision;
using profile::Source;

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
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
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
