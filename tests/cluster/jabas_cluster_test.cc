#include "yoke/cluster/jabas_cluster.h"

#include <nlohmann/json.hpp>

#include "tests/support/files.h"
#include "tests/support/paths.h"

namespace yoke::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using yoke::testing::expect_input_error;

void expect_round_trip(const std::string& path) {
  SCOPED_TRACE(path);
  const std::string text = yoke::testing::read_text(path);
  const auto imported = parse_jabas_cluster(text, path);
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  EXPECT_THAT(imported->ignored, IsEmpty());
  const auto written = to_jabas_cluster(imported->cluster);
  ASSERT_TRUE(written.ok()) << written.error().to_string();
  EXPECT_EQ(nlohmann::json::parse(*written), nlohmann::json::parse(text));
}

TEST(JabasCluster, GoldenSampleIsRead) {
  const std::string path = std::string(yoke::testing::kSourceDir) + "/tests/cluster/data/cluster_info.json";
  const auto imported = parse_jabas_cluster(yoke::testing::read_text(path), path);
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  EXPECT_THAT(imported->cluster.nodes(), ElementsAre(Node{.name = "alpha",
                                                          .devices = 4,
                                                          .type = "Some GPU 16GB",
                                                          .intra_bandwidth = base::Bandwidth{15e9},
                                                          .inter_bandwidth = base::Bandwidth{1.25e9},
                                                          .tflops = 14.5},
                                                     Node{.name = "beta",
                                                          .devices = 2,
                                                          .type = "Older GPU",
                                                          .intra_bandwidth = base::Bandwidth{15e9},
                                                          .inter_bandwidth = base::Bandwidth{1250000000.5}}));
  expect_round_trip(path);
}

TEST(JabasCluster, RealFilesRoundTrip) {
  YOKE_NEEDS_SHARED_DATA();
  expect_round_trip(yoke::testing::shared_data() + "/jabas-quickstart/cluster_info.json");
  expect_round_trip(yoke::testing::shared_data() + "/iidp-quickstart/cluster_info.json");
}

TEST(JabasCluster, CorrectSpellingAndUnknownKeysAreTaken) {
  const auto imported = parse_jabas_cluster(
      R"({"a": {"type": "t", "tflops": 2, "number": 1, "intra_network_bandwidth": "10GB/s",
          "inter_network_bandwidth": 1e9, "rack": 7}})",
      "c.json");
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  EXPECT_EQ(imported->cluster.nodes()[0].tflops, 2);
  EXPECT_EQ(imported->cluster.nodes()[0].intra_bandwidth, base::Bandwidth{10e9});
  EXPECT_THAT(imported->ignored, ElementsAre("c.json: rack of a"));
}

TEST(JabasCluster, WritingNeedsTheBandwidths) {
  const auto cluster = Cluster::make({{.name = "a", .intra_bandwidth = base::Bandwidth{1}}});
  ASSERT_TRUE(cluster.ok());
  expect_input_error(to_jabas_cluster(*cluster), "a: the node has no inter_bandwidth, which JABAS needs");
}

TEST(JabasCluster, BadInputIsOneErrorWithItsPlace) {
  const auto with = [](const std::string& key, const std::string& value) {
    nlohmann::ordered_json host{
        {"type", "t"}, {"number", 1}, {"intra_network_bandwidth", 1}, {"inter_network_bandwidth", 1}};
    host.erase(key);
    std::string text = host.dump();
    text.pop_back();
    if (!value.empty()) text += ",\n\"" + key + "\": " + value;
    return parse_jabas_cluster("{\"a\": " + text + "}}", "c.json");
  };
  ASSERT_TRUE(with("number", "3").ok());
  for (const char* key : {"type", "number", "intra_network_bandwidth", "inter_network_bandwidth"}) {
    expect_input_error(with(key, ""), std::string("c.json:1: a: required key `") + key + "` is missing");
    expect_input_error(with(key, "[1]"), std::string("c.json:2: a.") + key + ": found a list of 1, expected");
  }
  expect_input_error(with("number", "-4"), "c.json:2: a.number: found `-4`");
  expect_input_error(with("number", "1e99"), "c.json:2: a.number");
  expect_input_error(with("number", "\"4\""), "c.json:2: a.number: found the text `4`");
  expect_input_error(with("number", "NaN"), "c.json:2: not valid JSON");
  expect_input_error(with("intra_network_bandwidth", "-1"), "c.json:2: a.intra_network_bandwidth");
  expect_input_error(with("inter_network_bandwidth", "1e999"), "c.json:2: the number `1e999` is too large");
  expect_input_error(with("tfplos", "0"), "c.json:2: a.tfplos");
  expect_input_error(parse_jabas_cluster("", "c.json"), "c.json: the file is empty");
  expect_input_error(parse_jabas_cluster("{}", "c.json"), "c.json:1: found no host");
  expect_input_error(parse_jabas_cluster("[]", "c.json"), "c.json:1: found a list of 0, expected a map");
  expect_input_error(parse_jabas_cluster("{\"a\": 1}", "c.json"), "c.json:1: a: found `1`, expected a map");
  expect_input_error(parse_jabas_cluster("{\"a\": {}, \"a\": {}}", "c.json"), "the key `a` is given twice");
}

}  // namespace
}  // namespace yoke::cluster
