#include "yoke/profile/profile.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "yoke/base/text.h"

namespace yoke::profile {
namespace {

using base::input_error;
using base::Status;
using base::Where;

bool is_time(double ms) {
  return ms >= 0 && std::isfinite(ms);
}

Where inside(const Where& where, std::string field) {
  Where at = where;
  at.field = at.field.empty() ? std::move(field) : at.field + "." + field;
  return at;
}

Status validate(const ComputeSample& sample, const Where& where) {
  if (sample.vsw < 1) return input_error(fmt::format("found {} workers, expected at least 1", sample.vsw), where);
  const std::pair<std::string_view, double> times[] = {{"total", sample.total_ms},     {"data", sample.data_ms},
                                                       {"forward", sample.forward_ms}, {"backward", sample.backward_ms},
                                                       {"update", sample.update_ms},   {"copy", sample.copy_ms},
                                                       {"bn_sync", sample.bn_sync_ms}};
  for (const auto& [name, ms] : times) {
    if (!is_time(ms))
      return input_error(fmt::format("found {} ms, expected a finite time >= 0", ms), inside(where, std::string(name)));
  }
  if (sample.round_ms && !is_time(*sample.round_ms)) {
    return input_error(fmt::format("found {} ms, expected a finite time >= 0", *sample.round_ms),
                       inside(where, "round"));
  }
  if (sample.confidence && !is_time(sample.confidence->spread)) {
    return input_error(fmt::format("found a spread of {}, expected a finite share >= 0", sample.confidence->spread),
                       inside(where, "confidence"));
  }
  if (sample.forward_ms + sample.backward_ms <= 0) {
    return input_error("found forward and backward times of 0, expected a measured time > 0", where);
  }
  return {};
}

}  // namespace

Status validate(const NodeProfile& node, const Where& where) {
  if (!base::is_plain_name(node.node)) {
    return input_error(fmt::format("found a profile of node {}, expected a name without blanks, commas and slashes",
                                   base::quote(node.node)),
                       where);
  }
  for (const auto& [lbs, measured] : node.by_lbs) {
    const Where at = inside(where, fmt::format("{}[lbs {}]", node.node, lbs));
    if (lbs < 1) return input_error(fmt::format("found local batch size {}, expected at least 1", lbs), at);
    if (measured.max_vsw && *measured.max_vsw < 0) {
      return input_error(fmt::format("found a limit of {} workers, expected 0 or more", *measured.max_vsw), at);
    }
    int last = 0;
    for (const auto& sample : measured.compute) {
      YOKE_CHECK(validate(sample, inside(at, fmt::format("vsw {}", sample.vsw))));
      if (sample.vsw <= last) {
        return input_error(
            fmt::format("found {} workers after {}, expected each count once, ascending", sample.vsw, last), at);
      }
      last = sample.vsw;
    }
  }
  return {};
}

Status validate(const ProfileSet& profiles, const Where& where) {
  std::set<std::string> names;
  for (const auto& node : profiles.nodes) {
    YOKE_CHECK(validate(node, where));
    if (!names.insert(node.node).second) {
      return input_error(fmt::format("the node {} is profiled twice", base::quote(node.node)), where);
    }
  }
  for (const double size : profiles.buckets.mebibytes) {
    if (!(size > 0 && size <= 1e9)) {
      return input_error(fmt::format("found a bucket of {} MiB, expected a size > 0 and at most 1e9", size), where);
    }
  }
  return validate(profiles.comm, where);
}

Status validate(const CommProfile& comm, const Where& where) {
  for (const auto* points : {&comm.intra, &comm.inter}) {
    for (const auto& point : *points) {
      if (!is_time(point.ideal_ms) || !is_time(point.measured_ms) || !is_time(point.spread_ms.value_or(0))) {
        return input_error(fmt::format("found an all-reduce of {},{} ms, expected finite times >= 0", point.ideal_ms,
                                       point.measured_ms),
                           where);
      }
    }
  }
  for (const auto& link : comm.links) {
    if (is_time(link.latency_ms) && link.bandwidth.bytes_per_s > 0 && std::isfinite(link.bandwidth.bytes_per_s)) {
      continue;
    }
    return input_error(fmt::format("found a link on {} with a latency of {} ms and {} bytes/s, expected a finite "
                                   "latency >= 0 and a bandwidth > 0",
                                   base::quote(link.backend), link.latency_ms, link.bandwidth.bytes_per_s),
                       where);
  }
  return {};
}

const NodeProfile* ProfileSet::find(std::string_view node) const {
  for (const auto& each : nodes) {
    if (each.node == node) return &each;
  }
  return nullptr;
}

std::vector<std::string> ProfileSet::estimated_nodes() const {
  std::vector<std::string> names;
  for (const auto& each : nodes) {
    if (each.source == Source::kEstimate) names.push_back(each.node);
  }
  return names;
}

Source ProfileSet::source() const {
  return comm.source == Source::kEstimate || !estimated_nodes().empty() ? Source::kEstimate : Source::kMeasured;
}

std::vector<int> ProfileSet::local_batch_sizes() const {
  std::set<int> sizes;
  for (const auto& node : nodes) {
    for (const auto& [lbs, measured] : node.by_lbs) sizes.insert(lbs);
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace yoke::profile
