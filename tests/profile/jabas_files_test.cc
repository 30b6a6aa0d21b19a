#include "yoke/profile/jabas/profile_files.h"

#include <nlohmann/json.hpp>

#include "tests/support/files.h"

namespace yoke::profile::jabas {
namespace {

using ::testing::ElementsAre;
using yoke::testing::expect_input_error;
using Json = nlohmann::ordered_json;

const Json kCompute{{"model", "m"},      {"gpu_type", "g"},  {"lbs", 32},           {"num_models", 2},
                    {"total_time", 9.5}, {"data_time", 1.5}, {"fwd_time", 2.5},     {"bwd_time", 3.5},
                    {"update_time", 1},  {"copy_time", 0.5}, {"bn_sync_time", 0.25}};
const Json kMemory{{"gpu_type", "g"}, {"total_memory", 16945512448}, {"lbs", 32}, {"max_num_models", 3}};

Json with(Json json, const std::string& key, const Json& value) {
  json[key] = value;
  return json;
}

TEST(JabasFiles, ComputeFileHasEveryField) {
  const auto compute = parse_compute_file(with(kCompute, "host", "x").dump(), "c.json");
  ASSERT_TRUE(compute.ok()) << compute.error().to_string();
  EXPECT_EQ(compute->model, "m");
  EXPECT_EQ(compute->gpu_type, "g");
  EXPECT_EQ(compute->lbs, 32);
  EXPECT_EQ(compute->sample, (ComputeSample{2, 9.5, 1.5, 2.5, 3.5, 1, 0.5, 0.25}));
  EXPECT_THAT(compute->ignored, ElementsAre("c.json: `host`"));
  EXPECT_EQ(Json::parse(to_compute_json(*compute)), kCompute);
}

TEST(JabasFiles, ComputeFileWithoutBnSync) {
  Json json = kCompute;
  json.erase("bn_sync_time");
  const auto compute = parse_compute_file(json.dump(), "c.json");
  ASSERT_TRUE(compute.ok()) << compute.error().to_string();
  EXPECT_EQ(compute->sample.bn_sync_ms, 0);
  EXPECT_EQ(Json::parse(to_compute_json(*compute)), json);
}

TEST(JabasFiles, BadComputeFilesAreOneError) {
  for (const auto& [key, value] : kCompute.items()) {
    SCOPED_TRACE(key);
    expect_input_error(parse_compute_file(with(kCompute, key, Json::array()).dump(1), "c.json"),
                       key + ": found a list of 0, expected");
    if (value.is_string()) continue;
    expect_input_error(parse_compute_file(with(kCompute, key, -1).dump(1), "c.json"), key + ": found `-1`");
    expect_input_error(parse_compute_file(with(kCompute, key, "1").dump(1), "c.json"), key + ": found the text `1`");
  }
  expect_input_error(parse_compute_file(with(kCompute, "lbs", 2.5).dump(1), "c.json"), "c.json:4: lbs: found `2.5`");
  expect_input_error(parse_compute_file(with(kCompute, "lbs", 1e10).dump(1), "c.json"), "c.json:4: lbs: found");
  Json zero = with(with(kCompute, "fwd_time", 0), "bwd_time", 0);
  expect_input_error(parse_compute_file(zero.dump(1), "c.json"), "bwd_time: found fwd_time and bwd_time of 0");
  zero.erase("data_time");
  expect_input_error(parse_compute_file(zero.dump(1), "c.json"), "required key `data_time` is missing");
  expect_input_error(parse_compute_file("{\"lbs\": NaN}", "c.json"), "c.json:1: not valid JSON");
  expect_input_error(parse_compute_file(kCompute.dump().substr(0, 80), "c.json"), "c.json:1: not valid JSON");
  expect_input_error(parse_compute_file("", "c.json"), "c.json: the file is empty");
}

TEST(JabasFiles, MemoryFileHasEveryField) {
  const auto memory = parse_memory_file(kMemory.dump(), "m.json");
  ASSERT_TRUE(memory.ok()) << memory.error().to_string();
  EXPECT_EQ(memory->gpu_type, "g");
  EXPECT_EQ(memory->lbs, 32);
  EXPECT_EQ(memory->max_vsw, 3);
  EXPECT_EQ(memory->total_memory, base::Bytes{16945512448});
  EXPECT_EQ(Json::parse(to_memory_json(*memory)), kMemory);
  expect_input_error(parse_memory_file(with(kMemory, "max_num_models", -1).dump(1), "m.json"),
                     "m.json:5: max_num_models");
  expect_input_error(parse_memory_file(with(kMemory, "total_memory", 0).dump(1), "m.json"), "m.json:3: total_memory");
  expect_input_error(parse_memory_file(with(kMemory, "lbs", "32").dump(1), "m.json"), "m.json:4: lbs");
}

TEST(JabasFiles, BucketFile) {
  const auto buckets = parse_bucket_file(R"({"model": "m", "bucket_size_distribution": [7.81, 30]})", "b.json");
  ASSERT_TRUE(buckets.ok()) << buckets.error().to_string();
  EXPECT_THAT(buckets->buckets.mebibytes, ElementsAre(7.81, 30));
  EXPECT_EQ(Json::parse(to_bucket_json(*buckets)),
            Json::parse(R"({"model": "m", "bucket_size_distribution": [7.81, 30.0]})"));
  const auto bad = [](const std::string& list) {
    return parse_bucket_file("{\"model\": \"m\",\n\"bucket_size_distribution\": " + list + "}", "b.json");
  };
  expect_input_error(bad("[]"), "b.json:2: bucket_size_distribution: found no bucket");
  expect_input_error(bad("[1, 0]"), "b.json:2: bucket_size_distribution[1]: found `0`, expected a number > 0");
  expect_input_error(bad("[1, null]"), "bucket_size_distribution[1]: found nothing");
  expect_input_error(bad("7"), "bucket_size_distribution: found `7`, expected a list");
}

TEST(JabasFiles, CommFile) {
  const auto points = parse_comm_file("0.5242880000000001,4.42161012083292\r\n\n 2.5 , 1e1\n", "x.txt");
  ASSERT_TRUE(points.ok()) << points.error().to_string();
  EXPECT_THAT(*points, ElementsAre(CommPoint{0.5242880000000001, 4.42161012083292}, CommPoint{2.5, 10}));
  EXPECT_EQ(to_comm_text(*points), "0.5242880000000001,4.42161012083292\n2.5,10\n");
  for (const std::string& line :
       std::vector<std::string>{"1", "1,2,3", "1,x", "nan,1", "1,inf", "-1,1", "1,-1", ",", "1;2", "1e999,1"}) {
    expect_input_error(parse_comm_file("1,2\n" + line, "x.txt"), "x.txt:2: found `" + line + "`, expected two times");
  }
  expect_input_error(parse_comm_file("\n \n", "x.txt"), "x.txt: the file is empty");
}

}  // namespace
}  // namespace yoke::profile::jabas
