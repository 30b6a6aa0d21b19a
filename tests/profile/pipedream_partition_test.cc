#include "yoke/profile/pipedream/partition.h"

#include "tests/support/files.h"

namespace yoke::profile::pipedream {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using yoke::testing::expect_input_error;

TEST(PipedreamPartition, ReadsTheThreeMaps) {
  const auto imported = parse_partition(
      R"({"module_to_stage_map": [0, 1, 1], "stage_to_rank_map": {"1": [2], "0": [1, 0]},
          "stage_to_depth_map": {"0": 1, "1": 0}, "extra": 1})",
      "p.json");
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  EXPECT_THAT(imported->partition.stage_of_module, ElementsAre(0, 1, 1));
  EXPECT_THAT(imported->partition.ranks_of_stage, ElementsAre(ElementsAre(1, 0), ElementsAre(2)));
  EXPECT_THAT(imported->partition.warmup_of_stage, ElementsAre(1, 0));
  EXPECT_THAT(imported->ignored, ElementsAre("p.json: `extra`"));
  const auto again = parse_partition(to_partition_json(imported->partition), "again");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->partition, imported->partition);
}

TEST(PipedreamPartition, TheDepthMapIsOptional) {
  const auto imported = parse_partition(R"({"module_to_stage_map": [0], "stage_to_rank_map": {"0": [0]}})", "p.json");
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  EXPECT_THAT(imported->partition.warmup_of_stage, IsEmpty());
  EXPECT_EQ(parse_partition(to_partition_json(imported->partition), "again")->partition, imported->partition);
}

TEST(PipedreamPartition, BadInputIsOneErrorWithItsPlace) {
  const auto parse = [](const std::string& modules, const std::string& ranks, const std::string& depths = "null") {
    return parse_partition("{\"module_to_stage_map\": " + modules + ",\n\"stage_to_rank_map\": " + ranks +
                               ",\n\"stage_to_depth_map\": " + depths + "}",
                           "p.json");
  };
  ASSERT_TRUE(parse("[0]", R"({"0": [0]})").ok());
  expect_input_error(parse("null", R"({"0": [0]})"), "p.json:1: module_to_stage_map: found nothing, expected a list");
  expect_input_error(parse("[]", R"({"0": [0]})"), "p.json:1: module_to_stage_map: found no module");
  expect_input_error(parse("[0, -1]", R"({"0": [0]})"), "module_to_stage_map[1]: found `-1`");
  expect_input_error(parse("[0, 1e9]", R"({"0": [0]})"), "module_to_stage_map[1]: found");
  expect_input_error(parse("[0, 2]", R"({"0": [0], "2": [1]})"), "expected none to be left out");
  expect_input_error(parse("[0, 1]", R"({"0": [0]})"), "p.json:2: stage_to_rank_map: the stage 1 is missing");
  expect_input_error(parse("[0]", R"({"0": [0], "1": [1]})"), "stage_to_rank_map: found 2 stages, expected 1");
  expect_input_error(parse("[0]", R"({"0": []})"), "stage_to_rank_map.0: found no rank");
  expect_input_error(parse("[0, 1]", R"({"0": [0], "1": [0]})"), "stage_to_rank_map.1[0]: the rank 0 is in two stages");
  expect_input_error(parse("[0]", R"({"0": [1]})"), "stage_to_rank_map: found 1 ranks up to number 1");
  expect_input_error(parse("[0]", R"([0])"), "stage_to_rank_map: found a list of 1, expected a map");
  expect_input_error(parse("[0]", R"({"0": ["0"]})"), "stage_to_rank_map.0[0]: found the text `0`");
  expect_input_error(parse("[0]", R"({"0": [0]})", R"({"1": 0})"),
                     "p.json:3: stage_to_depth_map: the stage 0 is missing");
  expect_input_error(parse("[0]", R"({"0": [0]})", R"({"0": -1})"), "stage_to_depth_map.0: found `-1`");
  expect_input_error(parse_partition("", "p.json"), "p.json: the file is empty");
  expect_input_error(parse_partition("{", "p.json"), "p.json:1: not valid JSON");
}

}  // namespace
}  // namespace yoke::profile::pipedream
