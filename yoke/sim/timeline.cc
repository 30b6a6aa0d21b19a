#include "yoke/sim/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "yoke/base/svg.h"
#include "yoke/base/units.h"

namespace yoke::sim {
namespace {

using Kind = plan::ScheduleOpKind;
using Track = Span::Track;

struct Look {
  const char* name;
  const char* fill;
};

// The colours of plan/drawing.cc, so that both pictures read alike.
Look look_of(const plan::ScheduleOp& op) {
  switch (op.kind) {
    case Kind::kLoad:
      return {"load", "#999999"};
    case Kind::kForward:
      return {"forward", "#56b4e9"};
    case Kind::kRecompute:
      return {"recompute", "#cc79a7"};
    case Kind::kBackward:
      return {"backward", "#0072b2"};
    case Kind::kReduce:
    case Kind::kNorm:
      return {"all-reduce", "#d55e00"};
    case Kind::kUpdate:
      return {"update", "#009e73"};
    default:
      return {"message", "#e0c060"};
  }
}

constexpr std::size_t kMostRows = 64;
constexpr double kLeft = 190, kWide = 1100, kRight = 30, kTop = 70, kRow = 30, kBar = 16, kThin = 6;

std::string device_name(const plan::DeviceProgram& program) {
  if (program.kind == plan::ScheduleKind::kData) return fmt::format("{} (data)", program.device.to_string());
  return fmt::format("{} (stage {})", program.device.to_string(), program.stage);
}

void draw_legend(base::Svg& svg) {
  double x = kLeft;
  for (const Kind kind :
       {Kind::kLoad, Kind::kForward, Kind::kRecompute, Kind::kBackward, Kind::kReduce, Kind::kUpdate}) {
    const Look look = look_of({.kind = kind});
    svg.rectangle(x, 40, 12, 12, look.fill);
    svg.text(x + 16, 50, look.name, 11);
    x += 36 + 6.2 * static_cast<double>(std::string_view(look.name).size());
  }
  svg.text(x, 50, "numbers: workers", 11, base::Svg::Anchor::kStart, "#666");
}

}  // namespace

void add_to_trace(const plan::Schedule& schedule, const SimReport& report, base::Trace& trace) {
  for (std::size_t d = 0; d < schedule.programs.size(); ++d) {
    const int process = static_cast<int>(d);
    trace.name_process(process, device_name(schedule.programs[d]));
    trace.name_thread({process, static_cast<int>(Track::kCompute)}, "compute");
    trace.name_thread({process, static_cast<int>(Track::kReducer)}, "reducer");
    trace.name_thread({process, static_cast<int>(Track::kNetwork)}, "messages");
    for (const MemoryPoint& point : report.devices[d].memory) {
      trace.counter(process, "bytes", base::from_seconds(point.at), point.bytes);
    }
  }
  for (const Span& span : report.spans) {
    const base::Duration begin = base::from_seconds(span.begin);
    trace.span({span.program, static_cast<int>(span.track)}, plan::describe(span.op, schedule), look_of(span.op).name,
               begin, base::from_seconds(span.end) - begin);
  }
}

std::string draw_timeline(const plan::Schedule& schedule, const SimReport& report, const std::string& title) {
  const std::size_t rows = std::min(schedule.programs.size(), kMostRows);
  base::Svg svg(kLeft + kWide + kRight, kTop + static_cast<double>(rows) * kRow + 30);
  svg.text(20, 24, title, 15);
  draw_legend(svg);
  const double scale = report.seconds > 0 ? kWide / report.seconds : 0;
  for (std::size_t d = 0; d < rows; ++d) {
    const double y = kTop + static_cast<double>(d) * kRow;
    svg.text(kLeft - 8, y + 12, device_name(schedule.programs[d]), 11, base::Svg::Anchor::kEnd);
    svg.line(kLeft, y + kBar + kThin + 3, kLeft + kWide, y + kBar + kThin + 3, "#eeeeee");
  }
  for (const Span& span : report.spans) {
    if (span.track == Track::kNetwork || static_cast<std::size_t>(span.program) >= rows) continue;
    const double y = kTop + span.program * kRow;
    const double x = kLeft + span.begin * scale;
    const double width = (span.end - span.begin) * scale;
    const bool passes = span.track == Track::kCompute;
    svg.rectangle(x, passes ? y : y + kBar + 1, width, passes ? kBar : kThin, look_of(span.op).fill,
                  fmt::format("{}, {} from {}", plan::describe(span.op, schedule),
                              base::format_seconds(span.end - span.begin), base::format_seconds(span.begin)));
    const std::string worker = passes ? std::to_string(span.op.worker) : "";
    if (passes && width > 8 + 6 * static_cast<double>(worker.size())) {
      svg.text(x + width / 2, y + 12, worker, 10, base::Svg::Anchor::kMiddle, "#ffffff");
    }
  }
  const double bottom = kTop + static_cast<double>(rows) * kRow;
  svg.line(kLeft, bottom + 2, kLeft + kWide, bottom + 2, "#888");
  svg.text(kLeft, bottom + 18,
           rows < schedule.programs.size()
               ? fmt::format("0 (the first {} of {} devices)", rows, schedule.programs.size())
               : "0",
           11);
  svg.text(kLeft + kWide, bottom + 18, base::format_seconds(report.seconds), 11, base::Svg::Anchor::kEnd);
  return svg.to_string();
}

}  // namespace yoke::sim
