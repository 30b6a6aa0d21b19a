#include "yoke/profile/jabas/config.h"

#include <nlohmann/json.hpp>

#include "tests/support/files.h"
#include "yoke/profile/jabas/initial_config.h"

namespace yoke::profile::jabas {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using yoke::testing::expect_input_error;
using Json = nlohmann::ordered_json;

Json iidp_config() {
  return {{"memory_profile_dir", "mem"},    {"comp_profile_dir", "comp"},   {"comm_profile_dir", "comm"},
          {"bucket_profile_dir", "bucket"}, {"gpu_cluster_info", "c.json"}, {"available_servers", {"a", "b"}}};
}

Json jabas_config() {
  Json json = iidp_config();
  json["batch_size_lower_bound"] = 256;
  json["batch_size_upper_bound"] = 32768;
  json["similarity_target"] = 0.1;
  return json;
}

base::Result<ImportedConfig> parse(const Json& json) {
  return parse_config(json.dump(1), "config.json");
}

/// jabas_config() with one value replaced.
base::Result<ImportedConfig> with(const std::string& key, const Json& value) {
  Json json = jabas_config();
  json[key] = value;
  return parse(json);
}

void expect_round_trip(const ImportedConfig& imported) {
  const auto again = parse_config(to_config_json(imported.config), "again");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->config, imported.config);
}

TEST(JabasConfig, IidpNeedsOnlyTheFoldersAndServers) {
  const auto imported = parse(iidp_config());
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  EXPECT_EQ(imported->config.comp_profile_dir, "comp");
  EXPECT_THAT(imported->config.available_servers, ElementsAre("a", "b"));
  EXPECT_EQ(imported->config.batch_size_lower_bound, std::nullopt);
  EXPECT_THAT(imported->ignored, IsEmpty());
  EXPECT_EQ(Json::parse(to_config_json(imported->config)), iidp_config());
}

TEST(JabasConfig, EveryOptionalKeyIsRead) {
  Json json = jabas_config();
  json["batch_size_adjust_rate"] = 0.2;
  json["batch_size_adjust_interval"] = 50;
  json["resource_alloc_unit"] = "2gpu";
  json["homo_servers"] = Json::parse(R"([["a", "b"], ["c", "d"]])");
  json["enable_adjust"] = "False";
  json["metric"] = "similarity";
  json["nonsense"] = {1, 2};
  const auto imported = parse(json);
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  const Config& config = imported->config;
  EXPECT_EQ(config.batch_size_lower_bound, 256);
  EXPECT_EQ(config.batch_size_upper_bound, 32768);
  EXPECT_EQ(config.similarity_target, 0.1);
  EXPECT_EQ(config.batch_size_adjust_rate, 0.2);
  EXPECT_EQ(config.batch_size_adjust_interval, 50);
  EXPECT_EQ(config.resource_alloc_unit, 2);
  EXPECT_THAT(config.homo_servers, ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "d")));
  EXPECT_EQ(config.enable_adjust, false);
  EXPECT_EQ(config.metric, "similarity");
  EXPECT_THAT(imported->ignored, ElementsAre("config.json: `nonsense`"));
  expect_round_trip(*imported);
}

TEST(JabasConfig, FlagsAndGroupsHaveTwoSpellings) {
  EXPECT_EQ(with("enable_adjust", true)->config.enable_adjust, true);
  EXPECT_EQ(with("enable_adjust", "True")->config.enable_adjust, true);
  EXPECT_EQ(with("enable_adjust", false)->config.enable_adjust, false);
  EXPECT_THAT(with("homo_servers", Json{"a", "b"})->config.homo_servers, ElementsAre(ElementsAre("a", "b")));
  EXPECT_THAT(with("homo_servers", Json::array())->config.homo_servers, IsEmpty());
}

TEST(JabasConfig, RealConfigsRoundTrip) {
  YOKE_NEEDS_SHARED_DATA();
  for (const std::string& name : std::vector<std::string>{"jabas-quickstart", "iidp-quickstart"}) {
    const std::string text = yoke::testing::read_text(yoke::testing::shared_data() + "/" + name + "/config.json");
    const auto imported = parse_config(text, name);
    ASSERT_TRUE(imported.ok()) << imported.error().to_string();
    EXPECT_THAT(imported->ignored, IsEmpty());
    EXPECT_EQ(nlohmann::json::parse(to_config_json(imported->config)), nlohmann::json::parse(text));
  }
}

TEST(JabasConfig, BadInputIsOneErrorWithItsPlace) {
  const Json whole = jabas_config();
  for (const auto& [key, value] : whole.items()) {
    Json json = whole;
    json.erase(key);
    expect_input_error(parse(json), "config.json:1: required key `" + key + "` is missing");
    expect_input_error(with(key, Json::object()), key + ": found a map, expected");
  }
  expect_input_error(with("available_servers", Json::array()), "config.json:7: available_servers: found no server");
  expect_input_error(with("available_servers", {"a", "a"}), "available_servers[1]: the server `a` is given twice");
  expect_input_error(with("available_servers", {"a", 3}), "available_servers[1]: found `3`, expected a text");
  expect_input_error(with("available_servers", {"a", "../b"}), "available_servers[1]: found `../b`");
  expect_input_error(with("batch_size_upper_bound", 8), "config.json:12: batch_size_upper_bound: found 8 below");
  expect_input_error(with("batch_size_lower_bound", -1), "batch_size_lower_bound: found `-1`");
  expect_input_error(with("batch_size_lower_bound", 1e30), "batch_size_lower_bound: found");
  expect_input_error(with("similarity_target", 1.5), "similarity_target: found `1.5`, expected a number from -1 to 1");
  expect_input_error(with("batch_size_adjust_rate", 0), "batch_size_adjust_rate: found `0`");
  expect_input_error(with("batch_size_adjust_interval", 0.5), "batch_size_adjust_interval: found `0.5`");
  for (const char* unit : {"gpu", "4", "4gpus", "0gpu", "-4gpu", "", "u", "xgpu"}) {
    expect_input_error(with("resource_alloc_unit", unit), "expected a number of GPUs such as \"4gpu\"");
  }
  expect_input_error(with("enable_adjust", "maybe"), "enable_adjust: found `maybe`, expected False or True");
  expect_input_error(with("enable_adjust", 1), "enable_adjust: found `1`, expected true or false");
  expect_input_error(with("metric", "noise"), "metric: found `noise`, expected similarity");
  expect_input_error(with("homo_servers", {"a", {"b"}}), "homo_servers[1]: found a list of 1, expected a text");
  expect_input_error(parse_config("", "config.json"), "config.json: the file is empty");
  expect_input_error(parse_config("[1]", "config.json"), "config.json:1: found a list of 1, expected a map");
  expect_input_error(parse_config("{\"memory_profile_dir\": \"a", "config.json"), "config.json:1: not valid JSON");
}

TEST(JabasConfig, PathsResolveAgainstTheWorkingFolderThenTheConfigs) {
  const yoke::testing::TempFolder folder;
  const std::string config = folder.write("job/config.json", "{}");
  folder.write("job/mem/x", "");
  EXPECT_EQ(*resolve_path("mem", config, "k"), folder.file("job/mem"));
  EXPECT_EQ(*resolve_path("../job/mem", config, "k"), folder.file("job/../job/mem"));
  EXPECT_EQ(*resolve_path(folder.file("job"), config, "k"), folder.file("job"));
  const std::filesystem::path before = std::filesystem::current_path();
  folder.write("mem/x", "");
  std::filesystem::current_path(folder.path());
  EXPECT_EQ(*resolve_path("mem", config, "k"), "mem");
  std::filesystem::current_path(before);
  expect_input_error(resolve_path("gone", config, "k"), config + ": k: there is no `gone` nor `");
  expect_input_error(resolve_path("/gone", config, "k"), config + ": k: there is no `/gone`");
  expect_input_error(resolve_path("", config, "k"), "k: there is no");
}

TEST(JabasInitialConfig, RoundTripsAndRefusesNonsense) {
  const auto config = parse_initial_config("{\n  \"0\": 4,\n  \"10\": 2\n}", "i.json");
  ASSERT_TRUE(config.ok()) << config.error().to_string();
  EXPECT_THAT(*config, ElementsAre(Pair(0, 4), Pair(10, 2)));
  EXPECT_EQ(*parse_initial_config(to_initial_config_json(*config), "again"), *config);
  const auto bad = [](const std::string& text) { return parse_initial_config(text, "i.json"); };
  expect_input_error(bad("{}"), "i.json:1: found no worker");
  expect_input_error(bad("{\"a\": 1}"), "i.json:1: a: found the worker `a`");
  expect_input_error(bad("{\"-1\": 1}"), "found the worker `-1`");
  expect_input_error(bad("{\"1\": 1,\n \"01\": 1}"), "i.json:2: 01: the worker 1 is given twice");
  expect_input_error(bad("{\"0\": 0}"), "i.json:1: 0: found `0`");
  expect_input_error(bad("{\"0\": \"4\"}"), "i.json:1: 0: found the text `4`");
  expect_input_error(bad("[4]"), "i.json:1: found a list of 1, expected a map");
  expect_input_error(bad("{\"0\": 4"), "not valid JSON");
}

}  // namespace
}  // namespace yoke::profile::jabas
