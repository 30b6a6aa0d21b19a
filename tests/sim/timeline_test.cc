#include "yoke/sim/timeline.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/sim/uniform.h"

namespace yoke::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Timeline, TracesEveryPassMessageAndUpdate) {
  const auto schedule = schedule_of(pipeline_plan("1f1b-flush", 3, {1, 1}));
  Costs costs = uniform_costs(schedule, 1, 2);
  for (auto& program : costs.programs) program.worker_bytes = 10;
  const SimReport report = run(schedule, costs, {.record = true});
  base::Trace trace;
  add_to_trace(schedule, report, trace);
  const auto json = nlohmann::json::parse(trace.to_json());
  int passes = 0;
  int messages = 0;
  int updates = 0;
  int memory = 0;
  double end = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "C") ++memory;
    if (event["ph"] != "X") continue;
    const std::string category = event["cat"];
    passes += category == "forward" || category == "backward" ? 1 : 0;
    messages += category == "message" ? 1 : 0;
    updates += category == "update" ? 1 : 0;
    end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_EQ(passes, 2 * 2 * 3);
  EXPECT_EQ(messages, 2 * 3);
  EXPECT_EQ(updates, 2);
  EXPECT_GT(memory, 4);
  EXPECT_NEAR(end, report.seconds * 1e6, 1);
}

TEST(Timeline, IsDrawn) {
  const auto schedule = schedule_of(pipeline_plan("gpipe", 3, {1, 1}));
  const SimReport report = run(schedule, uniform_costs(schedule, 1, 2), {.record = true});
  const std::string svg = draw_timeline(schedule, report, "a title");
  EXPECT_THAT(svg, StartsWith("<svg"));
  EXPECT_THAT(svg, HasSubstr("a title"));
  EXPECT_THAT(svg, HasSubstr("n0:1 (stage 1)"));
  EXPECT_THAT(svg, HasSubstr("backward of worker 2 with version 0, 2.00 s from"));
}

TEST(Timeline, ManyDevicesAreCutOff) {
  const auto schedule = schedule_of(data_plan(100, 1, 0));
  const SimReport report = run(schedule, uniform_costs(schedule, 1, 2), {.record = true});
  EXPECT_THAT(draw_timeline(schedule, report, "t"), HasSubstr("the first 64 of 100 devices"));
}

}  // namespace
}  // namespace yoke::sim
