#include "yoke/plan/plan.h"

#include <gmock/gmock.h>

#include "tests/support/files.h"
#include "yoke/plan/drawing.h"

namespace yoke::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using yoke::testing::expect_input_error;

DataLane lane(const std::string& node, int index, int vsw, int ga) {
  return {.device = {node, index},
          .vsw = vsw,
          .ga = ga,
          .seconds = {.data = 0.01,
                      .forward = 0.1,
                      .backward = 0.2,
                      .all_reduce_exposed = 0.05,
                      .update = 0.01,
                      .all_reduce_hidden = 0.03}};
}

/// Two data lanes and a pipeline lane: 2 + 4 + 2 workers of 4 samples.
Plan mixed() {
  Plan plan{.model = "m", .gbs = 32, .lbs = 4, .sync = Sync::kSequential, .step_seconds = 0.37, .cost_model = "iidp"};
  plan.data_lanes = {lane("a", 0, 2, 0), lane("a", 1, 2, 1)};
  plan.pipeline_lanes = {
      {.schedule = "1f1b-flush",
       .workers = 2,
       .recompute = true,
       .stages = {
           {.layers = {"x", "y"},
            .devices = {{"b", 0}, {"fe80::1", 3}},
            .seconds = 0.2,
            .warmup = 1,
            .predicted = StagePrediction{.compute = 0.1, .transfers = 0.15, .all_reduce = 0.02, .memory_bytes = 1e9}},
           {.layers = {"z"}, .devices = {{"b", 1}}, .seconds = 0.1}}}};
  return plan;
}

TEST(Plan, CountsItsWorkers) {
  EXPECT_EQ(mixed().workers(), 8);
  EXPECT_TRUE(validate(mixed()).ok());
  EXPECT_DOUBLE_EQ(mixed().samples_per_second(), 32 / 0.37);
}

TEST(Plan, WritesWhatItReads) {
  const auto again = parse_plan(to_json(mixed()), "plan.json");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(*again, mixed());
}

TEST(Plan, RecomputeAndVerticalSyncAreWrittenWhereTheyAreSet) {
  Plan plan = mixed();
  EXPECT_THAT(to_json(plan), HasSubstr("\"recompute\": true"));
  EXPECT_THAT(to_json(plan), Not(HasSubstr("vertical_sync")));
  plan.pipeline_lanes[0].schedule = "1f1b-stash";
  plan.pipeline_lanes[0].recompute = false;
  plan.pipeline_lanes[0].vertical_sync = true;
  EXPECT_THAT(to_json(plan), Not(HasSubstr("recompute")));
  const auto again = parse_plan(to_json(plan), "plan.json");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(*again, plan);
}

TEST(Plan, RefusesWhatCannotRun) {
  const auto refused = [](Plan plan, const std::string& part) {
    expect_input_error(parse_plan(to_json(plan), "plan.json"), part);
  };
  Plan plan = mixed();
  plan.gbs = 36;
  refused(plan, "gbs: found 36, but the lanes run 8 workers of 4 samples = 32");
  plan = mixed();
  plan.data_lanes[1].device = plan.data_lanes[0].device;
  refused(plan, "device a:0 is used twice");
  plan = mixed();
  plan.pipeline_lanes[0].stages[1].devices = {{"a", 1}};
  refused(plan, "device a:1 is used twice");
  plan = mixed();
  plan.pipeline_lanes[0].stages[1].layers.clear();
  refused(plan, "found no layers in stages[1]");
  plan = mixed();
  plan.pipeline_lanes[0].stages.clear();
  refused(plan, "without stages");
  plan = mixed();
  plan.pipeline_lanes[0].vertical_sync = true;
  refused(plan, "found vertical_sync with the schedule `1f1b-flush`, expected 1f1b-stash");
  plan = {.model = "m", .gbs = 4, .lbs = 4};
  refused(plan, "no lane");
}

TEST(Plan, MessagesNameLineAndField) {
  std::string text = to_json(mixed());
  text.replace(text.find("\"vsw\": 2"), 8, "\"vsw\": 0");
  expect_input_error(parse_plan(text, "plan.json"), "data_lanes[0].vsw: found `0`, expected a whole number from 1");
  text = to_json(mixed());
  text.replace(text.find("\"lbs\""), 5, "\"lsb\"");
  expect_input_error(parse_plan(text, "plan.json"), "`lbs` is missing");
  text = to_json(mixed());
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 9");
  expect_input_error(parse_plan(text, "plan.json"), "plan.json:3: version");
}

TEST(Drawing, GroupsLanesThatDoTheSame) {
  Plan plan = mixed();
  plan.data_lanes = {lane("a", 0, 2, 0), lane("a", 1, 2, 0), lane("b", 0, 2, 0), lane("b", 1, 1, 1)};
  const auto groups = group_lanes(plan);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].devices, 2);
}

TEST(Drawing, ShowsLanesAndStages) {
  const std::string svg = draw_step(mixed());
  EXPECT_THAT(svg, StartsWith("<svg"));
  EXPECT_THAT(svg, HasSubstr("vsw 2, ga 1: 4 workers"));
  EXPECT_THAT(svg, HasSubstr("stage 0 x2"));
}

}  // namespace
}  // namespace yoke::plan
