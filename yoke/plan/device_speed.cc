#include "yoke/plan/device_speed.h"

#include <fmt/format.h>

#include <optional>

#include "yoke/base/text.h"

namespace yoke::plan {

base::Result<DeviceSpeeds> DeviceSpeeds::make(cluster::Cluster cluster, const std::string& profiled_on) {
  std::optional<cluster::Node> reference;
  for (const auto& node : cluster.nodes()) {
    const bool asked = !profiled_on.empty() && node.type == profiled_on;
    const bool faster = profiled_on.empty() && (!reference || node.tflops.value_or(0) > reference->tflops.value_or(0));
    if (asked || faster) reference = node;
  }
  if (!reference) {
    return base::input_error(
        fmt::format("found {}, but the cluster has {}", base::quote(profiled_on), base::join_words(cluster.types())),
        {.field = "profiled_on"});
  }
  return DeviceSpeeds(std::move(cluster), *std::move(reference));
}

base::Result<double> DeviceSpeeds::of(const cluster::Node& node) const {
  if (reference_.type == node.type) return node.speed;
  if (!node.tflops || !reference_.tflops) {
    return base::input_error(
        fmt::format("the speed of {} relative to {} is not known; give `tflops` of both in the cluster file", node.type,
                    reference_.type),
        {.field = node.name});
  }
  return node.speed * *node.tflops / *reference_.tflops;
}

base::Result<double> DeviceSpeeds::of(const cluster::DeviceId& device) const {
  YOKE_TRY(const cluster::Node node, cluster_.require_device(device));
  return of(node);
}

}  // namespace yoke::plan
