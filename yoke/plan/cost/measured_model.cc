#include "yoke/plan/cost/measured_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "yoke/cluster/device_type.h"
#include "yoke/plan/cost/iidp_model.h"

namespace yoke::plan {
namespace {

MeasuredRound to_round(const profile::ComputeSample& sample) {
  const double round = *sample.round_ms / 1000;
  const double passes = sample.forward_ms + sample.backward_ms;
  const double data = std::min(sample.data_ms / 1000, round);
  return {.vsw = sample.vsw,
          .data = data,
          .forward = (round - data) * sample.forward_ms / passes,
          .backward = (round - data) * sample.backward_ms / passes,
          .first = std::max(0.0, sample.total_ms / 1000 - round),
          .update = sample.update_ms / 1000};
}

bool has_rounds(const profile::NodeProfile& node) {
  bool any = false;
  for (const auto& [lbs, measured] : node.by_lbs) {
    for (const auto& sample : measured.compute) {
      if (!sample.round_ms) return false;
      any = true;
    }
  }
  return any;
}

double between(double low, double high, double share) {
  return low + (high - low) * share;
}

}  // namespace

MeasuredModel::MeasuredModel(cluster::Cluster cluster, std::vector<int> node_classes, std::vector<MeasuredTable> tables,
                             Reduce reduce, double overlap, Sync recommended)
    : cluster_(std::move(cluster)),
      node_classes_(std::move(node_classes)),
      tables_(std::move(tables)),
      reduce_(std::move(reduce)),
      overlap_(overlap),
      recommended_(recommended) {
  std::set<int> sizes;
  for (const auto& table : tables_) {
    for (const auto& [lbs, rounds] : table) sizes.insert(lbs);
  }
  local_batch_sizes_.assign(sizes.begin(), sizes.end());
}

bool MeasuredModel::can_use(const profile::ProfileSet& profiles) {
  return !profiles.nodes.empty() && std::ranges::all_of(profiles.nodes, has_rounds);
}

base::Result<MeasuredModel> MeasuredModel::make(cluster::Cluster cluster, const profile::ProfileSet& profiles) {
  for (const auto& node : profiles.nodes) {
    if (!has_rounds(node)) {
      return base::input_error(
          fmt::format("the profile of node {} lacks measured rounds (round_ms), which the cost "
                      "model `measured` needs: profile it with `yoke profile compute`, or use the "
                      "cost model `iidp`",
                      node.node));
    }
  }
  YOKE_TRY(IidpModel made, IidpModel::make(std::move(cluster), profiles));
  const auto iidp = std::make_shared<const IidpModel>(std::move(made));
  std::vector<MeasuredTable> tables;
  bool processors = true;
  for (std::size_t i = 0; i < iidp->node_classes().size(); ++i) {
    if (iidp->node_classes()[i] < static_cast<int>(tables.size())) continue;
    const profile::NodeProfile& measured = *profiles.find(iidp->profiled_node(iidp->node_classes()[i]));
    processors = processors && cluster::is_processor(iidp->cluster().nodes()[i].type);
    MeasuredTable table;
    for (const auto& [lbs, at_lbs] : measured.by_lbs) {
      for (const auto& sample : at_lbs.compute) {
        if (sample.vsw <= at_lbs.max_vsw.value_or(sample.vsw)) table[lbs].push_back(to_round(sample));
      }
    }
    tables.push_back(std::move(table));
  }
  // Where processors compute, they also move the bytes: what they do meanwhile is not done by anybody else.
  const double overlap = processors ? 0 : 1;
  const auto reduce = [iidp](int device_class, Extent extent) { return iidp->all_reduce(device_class, extent); };
  MeasuredModel model(iidp->cluster(), iidp->node_classes(), std::move(tables), reduce, overlap,
                      iidp->recommended_sync());
  model.warnings_ = iidp->warnings();
  return model;
}

int MeasuredModel::max_vsw(int device_class, int lbs) const {
  const auto& table = tables_.at(static_cast<std::size_t>(device_class));
  const auto found = table.find(lbs);
  return found == table.end() ? 0 : found->second.back().vsw;
}

MeasuredRound MeasuredModel::at(int device_class, int lbs, int vsw) const {
  const auto& table = tables_.at(static_cast<std::size_t>(device_class));
  const auto found = table.find(lbs);
  base::require(found != table.end() && vsw >= 1 && vsw <= found->second.back().vsw,
                fmt::format("class {} cannot run {} workers of {} samples", device_class, vsw, lbs));
  const auto& rounds = found->second;
  const auto high = std::ranges::lower_bound(rounds, vsw, {}, &MeasuredRound::vsw);
  if (high->vsw == vsw || high == rounds.begin()) return *high;
  const auto low = std::prev(high);
  const double share = static_cast<double>(vsw - low->vsw) / (high->vsw - low->vsw);
  return {.vsw = vsw,
          .data = between(low->data, high->data, share),
          .forward = between(low->forward, high->forward, share),
          .backward = between(low->backward, high->backward, share),
          .first = between(low->first, high->first, share),
          .update = between(low->update, high->update, share)};
}

StepParts MeasuredModel::parts(int device_class, const LaneWork& work, Sync sync, Extent extent) const {
  const MeasuredRound round = at(device_class, work.lbs, work.vsw);
  const ReduceTime reduce = reduce_(device_class, extent);
  const bool overlaps = sync == Sync::kOverlap;
  const double hidden = overlaps ? std::min(reduce.early, round.backward) * overlap_ : 0;
  // Where nothing is hidden (overlap_ 0) the measured step holds the whole update, however it is dealt out.
  const double update = overlaps ? round.first : between(round.first, std::max(round.first, round.update), overlap_);
  const double rounds = work.ga + 1;
  return {.data = round.data * rounds,
          .forward = round.forward * rounds,
          .backward = round.backward * rounds,
          .bn_sync = 0,
          .all_reduce_exposed = reduce.early + reduce.last - hidden,
          .update = update,
          .all_reduce_hidden = hidden,
          .update_hidden = std::max(0.0, round.update - update)};
}

LaneCost MeasuredModel::lane(int device_class, int lbs, int vsw, Sync sync, Extent extent) const {
  const StepParts one = parts(device_class, {.lbs = lbs, .vsw = vsw, .ga = 0}, sync, extent);
  return {.first_round = one.total(), .further_round = one.data + one.forward + one.backward};
}

}  // namespace yoke::plan
