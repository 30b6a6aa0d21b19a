#include "yoke/plan/cost/iidp_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "yoke/base/text.h"

namespace yoke::plan {
namespace {

using base::input_error;
using base::Result;
using base::Status;
using cluster::Node;
using profile::NodeProfile;
using profile::ProfileSet;

constexpr double kDefaultBucketMebibytes = 25;
constexpr double kSequentialRatio = 1.5;
constexpr double kBytesPerMebibyte = 1024 * 1024;

std::optional<Line> fit_all_reduce(const std::vector<profile::CommPoint>& points) {
  if (points.empty()) return std::nullopt;
  std::vector<double> ideal, measured;
  for (const auto& point : points) {
    ideal.push_back(point.ideal_ms);
    measured.push_back(point.measured_ms);
  }
  return fit_line(ideal, measured);
}

/// The node's own profile, else the first of an equal device.
Result<const NodeProfile*> profile_of(const Node& node, const cluster::Cluster& cluster, const ProfileSet& profiles) {
  if (const NodeProfile* own = profiles.find(node.name)) {
    if (!own->device_type.empty() && own->device_type != node.type) {
      return input_error(
          fmt::format("node {} is of type {} in the cluster but its profile was taken on {}: correct the "
                      "type, or profile the node again",
                      node.name, base::quote(node.type), base::quote(own->device_type)));
    }
    return own;
  }
  for (const auto& other : profiles.nodes) {
    const Node* peer = cluster.find(other.node);
    const double speed = peer == nullptr ? 1 : peer->speed;
    if (other.device_type == node.type && speed == node.speed) return &other;
  }
  return input_error(fmt::format("no profile covers node {} ({}): profile it, or a node of the same type and speed",
                                 node.name, node.type));
}

void warn_about_line(const std::optional<Line>& line, std::string_view where, std::vector<std::string>& warnings) {
  if (!line || line->slope >= 0) return;
  warnings.push_back(
      fmt::format("the all-reduce measurements {} get shorter as transfers get larger ({:.3g} ms per ideal ms), so "
                  "large transfers count as nearly free: measure them again",
                  where, line->slope));
}

/// The cluster file describes one device; the profiler saw one too.
void warn_about_memory(const Node& node, const NodeProfile& measured, std::vector<std::string>& warnings) {
  constexpr double kApart = 0.1;  // 16 GB by name may be 16 GiB less what the driver keeps
  for (const auto& [lbs, at_lbs] : measured.by_lbs) {
    if (!node.memory || !at_lbs.total_memory) continue;
    const auto listed = static_cast<double>(node.memory->count);
    const auto seen = static_cast<double>(at_lbs.total_memory->count);
    if (std::abs(listed - seen) <= kApart * std::max(listed, seen)) continue;
    warnings.push_back(fmt::format(
        "node {} has {} in the cluster file, but its profile was taken on a device of {}: {}; profile it again, or "
        "correct the file",
        node.name, base::format(*node.memory), base::format(*at_lbs.total_memory),
        listed < seen ? "the workers planned at once may not fit" : "more workers at once might fit than are planned"));
    return;
  }
}

/// `speed` says how nodes of one type compare; where both were measured, so do their profiles.
void warn_about_speed(const Node& node, const NodeProfile& measured, const Node& peer, const NodeProfile& peer_measured,
                      std::vector<std::string>& warnings) {
  constexpr double kApart = 0.2;
  for (const auto& [lbs, at_lbs] : measured.by_lbs) {
    const auto other = peer_measured.by_lbs.find(lbs);
    if (other == peer_measured.by_lbs.end() || at_lbs.compute.empty() || other->second.compute.empty()) continue;
    const auto milliseconds = [](const auto& sample) { return sample.forward_ms + sample.backward_ms; };
    const double faster = milliseconds(other->second.compute.front()) / milliseconds(at_lbs.compute.front());
    const double expected = node.speed / peer.speed;
    if (std::abs(faster - expected) <= kApart * std::max(faster, expected)) return;
    warnings.push_back(fmt::format(
        "node {} is {:.2g} times as fast as {} of the same type by `speed` in the cluster file, but {:.2g} times by "
        "their profiles, which count",
        node.name, expected, peer.name, faster));
    return;
  }
}

double bytes_per_s(const std::optional<base::Bandwidth>& bandwidth) {
  return bandwidth ? bandwidth->bytes_per_s : 0;
}

/// In whole MiB; absent if there is one bucket at most.
std::optional<double> average_early_bucket(const profile::BucketProfile& buckets) {
  const auto& sizes = buckets.mebibytes;
  if (sizes.size() < 2) return std::nullopt;
  const double sum = std::accumulate(sizes.begin(), sizes.end() - 1, 0.0);
  return std::trunc(sum / static_cast<double>(sizes.size() - 1));
}

}  // namespace

Sync recommend_sync(const profile::BucketProfile& buckets) {
  const auto average = average_early_bucket(buckets);
  return average && *average / kDefaultBucketMebibytes > kSequentialRatio ? Sync::kSequential : Sync::kOverlap;
}

std::string explain_sync(const profile::BucketProfile& buckets) {
  const auto average = average_early_bucket(buckets);
  if (!average) return "overlap, because all gradients are in one bucket";
  const bool sequential = recommend_sync(buckets) == Sync::kSequential;
  return fmt::format("{}, because the gradient buckets before the last have {} MiB on average, {} than {}",
                     to_string(recommend_sync(buckets)), *average, sequential ? "more" : "not more",
                     kSequentialRatio * kDefaultBucketMebibytes);
}

Result<IidpModel> IidpModel::make(cluster::Cluster cluster, const ProfileSet& profiles) {
  YOKE_CHECK(profile::validate(profiles));
  if (profiles.buckets.mebibytes.empty()) {
    return input_error("the profile has no gradient buckets, expected at least one: add buckets.json");
  }
  IidpModel model(std::move(cluster));
  model.intra_ = fit_all_reduce(profiles.comm.intra);
  model.inter_ = fit_all_reduce(profiles.comm.inter);
  model.bucket_mebibytes_ = profiles.buckets.mebibytes;
  const double all = std::accumulate(model.bucket_mebibytes_.begin(), model.bucket_mebibytes_.end(), 0.0);
  if (all > 0) model.last_bucket_share_ = model.bucket_mebibytes_.back() / all;
  model.recommended_sync_ = recommend_sync(profiles.buckets);
  YOKE_CHECK(model.classify(profiles));
  model.look_for_contradictions(profiles);
  return model;
}

Status IidpModel::classify(const ProfileSet& profiles) {
  const bool many_nodes = cluster_.nodes().size() > 1;
  if (many_nodes && !inter_) {
    return input_error("the profile has no all-reduce measurements between nodes: add them to comm.json");
  }
  std::vector<const NodeProfile*> class_profiles;
  std::set<int> sizes;
  bool nothing_fits = false;
  for (const Node& node : cluster_.nodes()) {
    if (many_nodes && bytes_per_s(node.inter_bandwidth) <= 0) {
      return input_error(fmt::format("node {} has no bandwidth to other nodes: set its inter_bandwidth", node.name));
    }
    if (node.devices > 1 && bytes_per_s(node.intra_bandwidth) <= 0) {
      return input_error(
          fmt::format("node {} has no bandwidth between its devices: set its intra_bandwidth", node.name));
    }
    if (node.devices > 1 && !intra_) {
      return input_error("the profile has no all-reduce measurements inside a node: add them to comm.json");
    }
    YOKE_TRY(const NodeProfile* measured, profile_of(node, cluster_, profiles));
    const double intra = bytes_per_s(node.intra_bandwidth);
    const double inter = bytes_per_s(node.inter_bandwidth);
    std::size_t found = 0;
    for (; found < classes_.size(); ++found) {
      const DeviceClass& known = classes_[found];
      const NodeProfile* known_profile = class_profiles[found];
      if (known.type == node.type && known.intra_bytes_per_s == intra && known.inter_bytes_per_s == inter &&
          (known_profile == measured || known_profile->by_lbs == measured->by_lbs)) {
        break;
      }
    }
    node_classes_.push_back(static_cast<int>(found));
    if (found < classes_.size()) continue;

    DeviceClass added{.type = node.type,
                      .profiled_node = measured->node,
                      .intra_bytes_per_s = intra,
                      .inter_bytes_per_s = inter,
                      .curves = {}};
    for (const auto& [lbs, at_lbs] : measured->by_lbs) {
      if (at_lbs.max_vsw == 0) nothing_fits = true;
      if (at_lbs.compute.empty() || at_lbs.max_vsw == 0) continue;  // it did not fit, or was not profiled
      YOKE_TRY(IidpCurve curve,
               IidpCurve::make(lbs, at_lbs, {.field = fmt::format("{}[lbs {}]", measured->node, lbs)}));
      added.curves.emplace(lbs, std::move(curve));
      sizes.insert(lbs);
    }
    classes_.push_back(std::move(added));
    class_profiles.push_back(measured);
  }
  if (sizes.empty() && nothing_fits) {
    return base::infeasible_error(
        "memory: not one worker of any profiled local batch size fits a device; profile smaller local batch sizes");
  }
  if (sizes.empty()) return input_error("the profile has no compute measurements: add them to nodes/<node>.json");
  local_batch_sizes_.assign(sizes.begin(), sizes.end());
  return {};
}

void IidpModel::look_for_contradictions(const ProfileSet& profiles) {
  warn_about_line(intra_, "inside a node", warnings_);
  warn_about_line(inter_, "between nodes", warnings_);
  std::map<std::string, const Node*> first_of_type;  // that was profiled itself
  for (const Node& node : cluster_.nodes()) {
    const NodeProfile* own = profiles.find(node.name);
    if (own == nullptr) continue;
    warn_about_memory(node, *own, warnings_);
    const auto [peer, added] = first_of_type.try_emplace(node.type, &node);
    if (!added) warn_about_speed(node, *own, *peer->second, *profiles.find(peer->second->name), warnings_);
  }
}

const IidpCurve* IidpModel::curve(int device_class, int lbs) const {
  const auto& curves = classes_.at(static_cast<std::size_t>(device_class)).curves;
  const auto found = curves.find(lbs);
  return found == curves.end() ? nullptr : &found->second;
}

int IidpModel::max_vsw(int device_class, int lbs) const {
  const IidpCurve* found = curve(device_class, lbs);
  return found == nullptr ? 0 : found->max_vsw();
}

ReduceTime IidpModel::all_reduce(int index, Extent extent) const {
  const DeviceClass& device_class = classes_.at(static_cast<std::size_t>(index));
  const std::optional<Line>& line = extent.across_nodes ? inter_ : intra_;
  ReduceTime result;
  if (!line) return result;  // one device that was never measured with others
  const double known = extent.across_nodes ? device_class.inter_bytes_per_s : device_class.intra_bytes_per_s;
  const double bandwidth = known > 0 ? known : 1;  // a lone device sends nothing: any bandwidth will do
  const double devices = extent.devices;
  for (const double size : bucket_mebibytes_) {
    const double ideal_ms = size * kBytesPerMebibyte / devices * 4 * (devices - 1) / bandwidth * 1000;
    result.early += result.last;
    // A line fitted to noise may cross zero; no transfer takes less than no time.
    result.last = std::max(0.0, (line->slope * ideal_ms + line->intercept) / 1000);
  }
  return result;
}

double IidpModel::exposed_update_share(Sync sync) const {
  return sync == Sync::kSequential ? 1 : last_bucket_share_;
}

LaneCost IidpModel::lane(int device_class, int lbs, int vsw, Sync sync, Extent extent) const {
  const IidpCurve* found = curve(device_class, lbs);
  base::require(found != nullptr && vsw >= 1 && vsw <= found->max_vsw(),
                fmt::format("class {} cannot run {} workers of {} samples", device_class, vsw, lbs));
  const ReduceTime reduce = all_reduce(device_class, extent);
  const double data = found->data_seconds(vsw);
  const double compute = found->compute_seconds(vsw);
  const double forward = compute * found->forward_ratio();
  const double backward = compute * found->backward_ratio();
  const double tail = found->update_seconds() + found->copy_seconds() * (vsw - 1);
  return {.first_round = data + found->bn_sync_seconds() * vsw + forward + std::max(backward, reduce.early) +
                         reduce.last + tail * exposed_update_share(sync),
          .further_round = data + forward + backward};
}

StepParts IidpModel::parts(int device_class, const LaneWork& work, Sync sync, Extent extent) const {
  const IidpCurve* found = curve(device_class, work.lbs);
  base::require(found != nullptr, fmt::format("class {} cannot run {} samples", device_class, work.lbs));
  const ReduceTime reduce = all_reduce(device_class, extent);
  const double rounds = work.ga + 1;
  const double compute = found->compute_seconds(work.vsw);
  const double backward = compute * found->backward_ratio();
  const double tail = found->update_seconds() + found->copy_seconds() * (work.vsw - 1);
  const double share = exposed_update_share(sync);
  return {.data = found->data_seconds(work.vsw) * rounds,
          .forward = compute * found->forward_ratio() * rounds,
          .backward = backward * rounds,
          .bn_sync = found->bn_sync_seconds() * work.vsw,
          .all_reduce_exposed = std::max(0.0, reduce.early - backward) + reduce.last,
          .update = tail * share,
          .all_reduce_hidden = std::min(backward, reduce.early),
          .update_hidden = tail * (1 - share)};
}

}  // namespace yoke::plan
