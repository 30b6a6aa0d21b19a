// Bar charts of profiles as SVG.
#pragma once

#include <string>
#include <vector>

namespace yoke::profiler {

struct Bar {
  std::string label;
  std::vector<double> parts;  // drawn side by side in one bar, one for each name
};

/// `names` of the parts, for the legend; `unit` for the numbers at the bars, e.g. `ms`. At least one bar; all have as
/// many parts as there are names.
std::string bar_chart(const std::string& title, const std::vector<std::string>& names, const std::string& unit,
                      const std::vector<Bar>& bars);

}  // namespace yoke::profiler
