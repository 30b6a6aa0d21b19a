#include "yoke/plan/solve/pipeline/overlap_model.h"

#include <algorithm>
#include <limits>

namespace yoke::plan {
namespace {

int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

}  // namespace

OverlapModel::OverlapModel(const CutStates& states, const OverlapOptions& options)
    : states_(states), options_(options) {}

bool OverlapModel::spans_nodes(int index, int used, int q) const {
  const int per_node = group(index).devices_per_node;
  if (q == 1 || group(index).nodes == 1) return false;
  return (used - q) / per_node != (used - 1) / per_node;
}

double OverlapModel::inter_link(int a, int b) const {
  return std::min(group(a).inter_bytes_per_s, group(b).inter_bytes_per_s);
}

bool OverlapModel::same_node(const StagePlace& from, const StagePlace& to, int used_after) const {
  // The stages' devices are neighbours in the group's order: they share a node unless a node ends between them.
  return from.group == to.group && !from.spans_nodes && !to.spans_nodes &&
         used_after % group(from.group).devices_per_node != 0;
}

double OverlapModel::link(const StagePlace& from, const StagePlace& to, int used_after) const {
  return same_node(from, to, used_after) ? group(from.group).intra_bytes_per_s : inter_link(from.group, to.group);
}

double OverlapModel::share(int q) const {
  if (options_.schedule == PipelineSchedule::kStash) return 1.0 / q;
  return static_cast<double>(ceil_div(options_.micro_batches, q)) / options_.micro_batches;
}

int OverlapModel::most_replicas() const {
  const int any = std::numeric_limits<int>::max();
  return std::min(options_.schedule == PipelineSchedule::kStash ? any : options_.micro_batches,
                  options_.most_replicas > 0 ? options_.most_replicas : any);
}

double OverlapModel::alone_seconds(int first, int last, int index) const {
  return states_.segment(states_.seconds, first, last) / group(index).speed;
}

double OverlapModel::compute_seconds(int first, int last, int index, int q) const {
  const double update = states_.segment(states_.update_seconds, first, last) / group(index).speed;
  return alone_seconds(first, last, index) * share(q) + update / minibatches_per_update(q);
}

double OverlapModel::all_reduce_seconds(int first, int last, const StagePlace& place, int q) const {
  if (q == 1) return 0;
  const DeviceGroup& on = group(place.group);
  const double parameters = states_.segment(states_.parameter_bytes, first, last);
  const double once =
      2.0 * (q - 1) / q * parameters / (place.spans_nodes ? on.inter_bytes_per_s : on.intra_bytes_per_s);
  return once / minibatches_per_update(q);
}

double OverlapModel::bytes_in(int first) const {
  return first == 0 ? 0 : states_.crossing_bytes[static_cast<std::size_t>(first - 1)];
}

int OverlapModel::in_flight(int q, int devices) const {
  const int by_step = ceil_div(options_.micro_batches, q);
  const int by_depth = ceil_div(devices, q);
  switch (options_.schedule) {
    case PipelineSchedule::kGpipe:
      return by_step;
    case PipelineSchedule::kFlush:
      return std::min(by_step, by_depth);
    case PipelineSchedule::kStash:
      break;
  }
  return by_depth;
}

double OverlapModel::memory_bytes(int first, int last, int q, int devices) const {
  const int flying = in_flight(q, devices);
  const int versions = options_.schedule == PipelineSchedule::kStash ? flying : 1;
  const double activations = states_.segment(states_.activation_bytes, first, last) + bytes_in(first);
  const double parameters = states_.segment(states_.parameter_bytes, first, last);
  return parameters * (versions + 1 + options_.optimizer_copies) + activations * flying;
}

double OverlapModel::least_bytes(int first, int last, int devices) const {
  // q devices hold q ceil(n / q) >= n minibatches of the n that the schedule lets in.
  const bool stash = options_.schedule == PipelineSchedule::kStash;
  const int step = options_.micro_batches;
  const int flying = stash ? devices : options_.schedule == PipelineSchedule::kGpipe ? step : std::min(step, devices);
  return states_.segment(states_.parameter_bytes, first, last) *
             ((stash ? flying : 1) + 1 + options_.optimizer_copies) +
         states_.segment(states_.activation_bytes, first, last) * flying;
}

bool OverlapModel::fits(int first, int last, int index, int q, int devices) const {
  const auto& limit = group(index).memory_bytes;
  return !limit || memory_bytes(first, last, q, devices) <= *limit;
}

}  // namespace yoke::plan
