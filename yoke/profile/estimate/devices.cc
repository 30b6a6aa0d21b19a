#include "yoke/profile/estimate/devices.h"

#include <fmt/format.h>

#include <algorithm>

#include "yoke/base/text.h"

namespace yoke::profile {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kGibi = 1024.0 * 1024 * 1024;
// One way, 16 lanes.
constexpr double kPcie3 = 15.75 * kGiga;
constexpr double kPcie4 = 31.5 * kGiga;
constexpr double kPcie5 = 63 * kGiga;

// Dense peaks at boost clocks, without sparsity. Where a device has no fast half precision, its fp32 peak stands there.
constexpr DeviceSheet kDevices[] = {
    {"k80", "Tesla K80", 4.37 * kTera, 4.37 * kTera, 240 * kGiga, 12 * kGibi, kPcie3, kPcie3},  // one of its two
    {"m60", "Tesla M60", 4.8 * kTera, 4.8 * kTera, 160 * kGiga, 8 * kGibi, kPcie3, kPcie3},     // one of its two
    {"p100", "Tesla P100-PCIE-16GB", 9.3 * kTera, 18.7 * kTera, 732 * kGiga, 16 * kGibi, kPcie3, kPcie3},
    {"p100-sxm2", "Tesla P100-SXM2-16GB", 10.6 * kTera, 21.2 * kTera, 732 * kGiga, 16 * kGibi, kPcie3, 80 * kGiga},
    {"gtx1080ti", "GeForce GTX 1080 Ti", 11.3 * kTera, 11.3 * kTera, 484 * kGiga, 11 * kGibi, kPcie3, kPcie3},
    {"titanxp", "TITAN Xp", 12.1 * kTera, 12.1 * kTera, 547.6 * kGiga, 12 * kGibi, kPcie3, kPcie3},
    {"v100", "Tesla V100-PCIE-16GB", 14 * kTera, 112 * kTera, 900 * kGiga, 16 * kGibi, kPcie3, kPcie3},
    {"v100-32gb", "Tesla V100-PCIE-32GB", 14 * kTera, 112 * kTera, 900 * kGiga, 32 * kGibi, kPcie3, kPcie3},
    {"v100-sxm2", "Tesla V100-SXM2-16GB", 15.7 * kTera, 125 * kTera, 900 * kGiga, 16 * kGibi, kPcie3, 150 * kGiga},
    {"t4", "Tesla T4", 8.1 * kTera, 65 * kTera, 320 * kGiga, 16 * kGibi, kPcie3, kPcie3},
    {"rtx2080ti", "GeForce RTX 2080 Ti", 13.45 * kTera, 53.8 * kTera, 616 * kGiga, 11 * kGibi, kPcie3, kPcie3},
    {"a100", "A100-SXM4-40GB", 19.5 * kTera, 312 * kTera, 1555 * kGiga, 40 * kGibi, kPcie4, 300 * kGiga},
    {"a100-80gb", "A100-SXM4-80GB", 19.5 * kTera, 312 * kTera, 2039 * kGiga, 80 * kGibi, kPcie4, 300 * kGiga},
    {"a100-pcie", "A100-PCIE-40GB", 19.5 * kTera, 312 * kTera, 1555 * kGiga, 40 * kGibi, kPcie4, kPcie4},
    {"a10", "A10", 31.2 * kTera, 125 * kTera, 600 * kGiga, 24 * kGibi, kPcie4, kPcie4},
    {"a40", "A40", 37.4 * kTera, 149.7 * kTera, 696 * kGiga, 48 * kGibi, kPcie4, kPcie4},
    {"rtxa6000", "RTX A6000", 38.7 * kTera, 154.8 * kTera, 768 * kGiga, 48 * kGibi, kPcie4, kPcie4},
    {"rtx3080", "GeForce RTX 3080", 29.8 * kTera, 59.5 * kTera, 760 * kGiga, 10 * kGibi, kPcie4, kPcie4},
    {"rtx3090", "GeForce RTX 3090", 35.6 * kTera, 71 * kTera, 936 * kGiga, 24 * kGibi, kPcie4, kPcie4},
    {"l4", "L4", 30.3 * kTera, 121 * kTera, 300 * kGiga, 24 * kGibi, kPcie4, kPcie4},
    {"l40s", "L40S", 91.6 * kTera, 362 * kTera, 864 * kGiga, 48 * kGibi, kPcie4, kPcie4},
    {"rtx4090", "GeForce RTX 4090", 82.6 * kTera, 165.2 * kTera, 1008 * kGiga, 24 * kGibi, kPcie4, kPcie4},
    {"h100", "H100-SXM5-80GB", 66.9 * kTera, 989 * kTera, 3350 * kGiga, 80 * kGibi, kPcie5, 450 * kGiga},
    {"h100-pcie", "H100-PCIE-80GB", 51.2 * kTera, 756 * kTera, 2000 * kGiga, 80 * kGibi, kPcie5, kPcie5},
};

}  // namespace

std::span<const DeviceSheet> known_devices() {
  return kDevices;
}

base::Result<DeviceSheet> find_device(std::string_view name) {
  const auto found = std::ranges::find(kDevices, name, &DeviceSheet::name);
  if (found != std::ranges::end(kDevices)) return *found;
  std::vector<std::string> names;
  for (const auto& device : kDevices) names.emplace_back(device.name);
  return base::input_error(fmt::format("found {}, expected a device that is known{}; `list` shows all {}",
                                       base::quote(name), base::did_you_mean(name, names), names.size()));
}

}  // namespace yoke::profile
