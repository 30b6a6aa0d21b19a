#include "yoke/plan/drawing.h"

#include <fmt/format.h>

#include <algorithm>

#include "yoke/base/svg.h"
#include "yoke/base/units.h"

namespace yoke::plan {
namespace {

struct Segment {
  const char* name;
  const char* fill;
  double StepParts::*part;
};

// In the order of a step. Colours that stay apart for most kinds of colour blindness (after Okabe and Ito).
constexpr Segment kShown[] = {{"data", "#999999", &StepParts::data},
                              {"forward", "#56b4e9", &StepParts::forward},
                              {"backward", "#0072b2", &StepParts::backward},
                              {"BN sync", "#cc79a7", &StepParts::bn_sync},
                              {"all-reduce", "#d55e00", &StepParts::all_reduce_exposed},
                              {"update", "#009e73", &StepParts::update}};
constexpr Segment kHidden[] = {{"hidden all-reduce", "#f0a875", &StepParts::all_reduce_hidden},
                               {"hidden update", "#8fd1bd", &StepParts::update_hidden}};

struct StageBar {
  const char* name;
  const char* fill;
  double StagePrediction::*part;
};
// They overlap, so they are drawn below one another.
constexpr StageBar kStageBars[] = {{"compute", "#0072b2", &StagePrediction::compute},
                                   {"transfers", "#009e73", &StagePrediction::transfers},
                                   {"all-reduce", "#d55e00", &StagePrediction::all_reduce}};

constexpr double kLeft = 230, kBarsWide = 620, kRight = 110, kTop = 70, kRow = 50, kBar = 18, kHiddenBar = 8;

/// The longest bar of the picture.
double longest(const Plan& plan) {
  double seconds = 0;
  for (const auto& lane : plan.data_lanes) seconds = std::max(seconds, lane.seconds.total());
  for (const auto& lane : plan.pipeline_lanes) {
    for (const auto& stage : lane.stages) seconds = std::max(seconds, stage.pace_seconds());
  }
  return seconds;
}

/// An entry of the legend; returns where the next one begins.
double draw_legend_entry(base::Svg& svg, double x, std::string_view name, std::string_view fill) {
  svg.rectangle(x, 40, 12, 12, fill);
  svg.text(x + 16, 50, name, 11);
  return x + 30 + 6.2 * static_cast<double>(name.size());
}

void draw_legend(base::Svg& svg, bool data_lanes, bool pipelines) {
  double x = kLeft;
  if (data_lanes) {
    for (const auto& segment : kShown) x = draw_legend_entry(svg, x, segment.name, segment.fill);
    for (const auto& segment : kHidden) x = draw_legend_entry(svg, x, segment.name, segment.fill);
  } else if (pipelines) {
    for (const auto& bar : kStageBars) x = draw_legend_entry(svg, x, bar.name, bar.fill);
    svg.text(x, 50, "of one worker, shared by the devices of its stage", 11, base::Svg::Anchor::kStart, "#666");
  }
}

void draw_group(base::Svg& svg, const DrawnLane& group, double y, double pixels_per_second) {
  const auto& lane = group.lane;
  svg.text(kLeft - 10, y + 10, fmt::format("{} x{}", group.node, group.devices), 13, base::Svg::Anchor::kEnd);
  svg.text(kLeft - 10, y + 24, fmt::format("vsw {}, ga {}: {} workers", lane.vsw, lane.ga, lane.workers()), 10,
           base::Svg::Anchor::kEnd, "#666");
  double x = kLeft;
  for (const auto& [name, fill, part] : kShown) {
    const double seconds = lane.seconds.*part;
    svg.rectangle(x, y, seconds * pixels_per_second, kBar, fill,
                  fmt::format("{} {}", name, base::format_seconds(seconds)));
    x += seconds * pixels_per_second;
  }
  svg.text(x + 6, y + 13, base::format_seconds(lane.seconds.total()), 12);
  // What is hidden is drawn below what hides it: the all-reduce ends with the backward pass at the latest, the updates
  // that follow it with the all-reduce of the last bucket.
  const auto& s = lane.seconds;
  double end = kLeft + (s.data + s.forward + s.backward + s.bn_sync) * pixels_per_second;
  double top = y + kBar + 1;
  for (const auto& [name, fill, part] : kHidden) {
    const double width = std::min(s.*part * pixels_per_second, end - kLeft);
    svg.rectangle(end - width, top, width, kHiddenBar, fill, fmt::format("{} {}", name, base::format_seconds(s.*part)));
    end += s.all_reduce_exposed * pixels_per_second;
    top += kHiddenBar + 1;
  }
}

void draw_stage(base::Svg& svg, const PipelineStage& stage, std::size_t number, double y, double pixels_per_second) {
  svg.text(kLeft - 10, y + 10, fmt::format("stage {} x{}", number, stage.devices.size()), 13, base::Svg::Anchor::kEnd);
  svg.text(kLeft - 10, y + 24,
           fmt::format("{} layers on {}{}", stage.layers.size(), stage.devices.front().node,
                       stage.devices.front().node == stage.devices.back().node ? "" : " and others"),
           10, base::Svg::Anchor::kEnd, "#666");
  const StagePrediction shown = stage.predicted.value_or(StagePrediction{.compute = stage.pace_seconds()});
  double top = y;
  for (const auto& [name, fill, part] : kStageBars) {
    const double height = part == &StagePrediction::compute ? kBar : kHiddenBar;
    svg.rectangle(kLeft, top, shown.*part * pixels_per_second, height, fill,
                  fmt::format("{} {}, {} .. {}", name, base::format_seconds(shown.*part), stage.layers.front(),
                              stage.layers.back()));
    top += height + 1;
  }
  svg.text(kLeft + shown.seconds() * pixels_per_second + 6, y + 13, base::format_seconds(shown.seconds()), 12);
}

}  // namespace

std::vector<DrawnLane> group_lanes(const Plan& plan) {
  std::vector<DrawnLane> groups;
  for (const auto& lane : plan.data_lanes) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const DrawnLane& group) {
      return group.node == lane.device.node && group.lane.vsw == lane.vsw && group.lane.ga == lane.ga;
    });
    if (same == groups.end()) {
      groups.push_back({.node = lane.device.node, .devices = 1, .lane = lane});
    } else {
      ++same->devices;
    }
  }
  return groups;
}

std::string draw_step(const Plan& plan) {
  const auto groups = group_lanes(plan);
  std::size_t rows = groups.size();
  for (const auto& lane : plan.pipeline_lanes) rows += lane.stages.size();
  base::Svg svg(kLeft + kBarsWide + kRight, kTop + static_cast<double>(rows) * kRow + 30);
  svg.text(20, 24,
           fmt::format("{}: global batch {}, {} workers of {}, {}", plan.model, plan.gbs, plan.workers(), plan.lbs,
                       to_string(plan.sync)),
           15);
  draw_legend(svg, !groups.empty(), !plan.pipeline_lanes.empty());
  // A plan that nobody has priced has no bars.
  const double pixels_per_second = longest(plan) > 0 ? kBarsWide / longest(plan) : 0;
  double y = kTop;
  for (const auto& group : groups) {
    draw_group(svg, group, y, pixels_per_second);
    y += kRow;
  }
  for (const auto& lane : plan.pipeline_lanes) {
    for (std::size_t i = 0; i < lane.stages.size(); ++i) {
      draw_stage(svg, lane.stages[i], i, y, pixels_per_second);
      y += kRow;
    }
  }
  svg.line(kLeft, y + 4, kLeft + kBarsWide, y + 4, "#888");
  svg.text(kLeft, y + 20, "0", 11);
  svg.text(kLeft + kBarsWide, y + 20, base::format_seconds(longest(plan)), 11, base::Svg::Anchor::kEnd);
  return svg.to_string();
}

}  // namespace yoke::plan
