#include "yoke/cli/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "yoke/base/error.h"
#include "yoke/base/units.h"
#include "yoke/cli/link_survey.h"
#include "yoke/comm/probe/link_probe.h"
#include "yoke/plan/buckets.h"

namespace yoke::cli {
namespace {

using base::Result;
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

double update_seconds(double bytes, std::size_t tensors, const DeviceSheet& device) {
  return kUpdatePasses * bytes / (device.memory_bytes_per_s * profile::kMemoryShare) +
         static_cast<double>(tensors) * profile::kKernelSeconds;
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
    const double bytes = std::accumulate(block.parameter_bytes.begin(), block.parameter_bytes.end(), 0.0);
    layers.push_back({.id = block.name,
                      .description = fmt::format("estimate for {}", device.type),
                      .forward_ms = 1000 * forward.seconds(1),
                      .backward_ms = 1000 * backward.seconds(1),
                      .output_bytes = {block.output_bytes.of(lbs)},
                      .parameter_bytes = bytes,
                      .update_ms = 1000 * update_seconds(bytes, block.parameter_bytes.size(), device)});
    const int index = static_cast<int>(layers.size()) - 1;
    if (index > 0) edges.push_back({index - 1, index});
  }
  YOKE_TRY(const profile::LayerGraph graph, profile::LayerGraph::make(std::move(layers), std::move(edges)));
  return graph.with_source(Source::kEstimate).with_lbs(lbs);
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

}  // namespace

profile::ComputeSample estimate_sample(const ModelCount& model, int lbs, int vsw, const DeviceSheet& device,
                                       Precision precision) {
  PassTime forward, backward;
  for (const auto& block : model.blocks) {
    add(forward, block.forward, lbs, device, precision);
    add(backward, block.backward, lbs, device, precision);
  }
  const double data = vsw * model.input_bytes.of(lbs) / (device.host_bytes_per_s * profile::kHostShare);
  const double update = update_seconds(weight_bytes(model), weight_count(model), device);
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

}  // namespace yoke::cli
