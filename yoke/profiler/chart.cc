#include "yoke/profiler/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "yoke/base/svg.h"

namespace yoke::profiler {
namespace {

constexpr double kRow = 18;
constexpr double kLabels = 170;
constexpr double kBars = 480;
constexpr double kNumbers = 110;
constexpr double kHead = 52;
constexpr std::array<const char*, 3> kColours{"#4477aa", "#ee6677", "#228833"};

}  // namespace

std::string bar_chart(const std::string& title, const std::vector<std::string>& names, const std::string& unit,
                      const std::vector<Bar>& bars) {
  const auto total = [](const Bar& bar) { return std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0); };
  double largest = 0;
  for (const auto& bar : bars) largest = std::max(largest, total(bar));
  base::Svg svg(kLabels + kBars + kNumbers, kHead + kRow * static_cast<double>(bars.size()) + 10);
  svg.text(8, 18, title, 14);
  double legend = kLabels;
  for (std::size_t i = 0; i < names.size(); ++i) {
    svg.rectangle(legend, 28, 10, 10, kColours[i % kColours.size()]);
    svg.text(legend + 14, 37, names[i], 11);
    legend += 30 + 8 * static_cast<double>(names[i].size());
  }
  for (std::size_t row = 0; row < bars.size(); ++row) {
    const Bar& bar = bars[row];
    const double y = kHead + kRow * static_cast<double>(row);
    svg.text(kLabels - 6, y + 12, bar.label, 11, base::Svg::Anchor::kEnd);
    double x = kLabels;
    for (std::size_t i = 0; i < bar.parts.size(); ++i) {
      const double width = largest > 0 ? bar.parts[i] / largest * kBars : 0;
      svg.rectangle(x, y + 2, width, kRow - 4, kColours[i % kColours.size()],
                    fmt::format("{}: {} {:.4g} {}", bar.label, names[i], bar.parts[i], unit));
      x += width;
    }
    svg.text(x + 5, y + 12, fmt::format("{:.4g} {}", total(bar), unit), 11);
  }
  return svg.to_string();
}

}  // namespace yoke::profiler
