#include "yoke/cluster/cluster_file.h"

#include <unistd.h>

#include "tests/support/files.h"
#include "tests/support/paths.h"

namespace yoke::cluster {
namespace {

using ::testing::HasSubstr;
using yoke::testing::expect_input_error;

const std::string kData = std::string(yoke::testing::kSourceDir) + "/tests/cluster/data/";

Node big_node() {
  return {.name = "big",
          .address = "user@10.0.0.7",
          .devices = 4,
          .type = "Tesla V100-PCIE-16GB",
          .memory = base::Bytes{16945512448},
          .intra_bandwidth = base::Bandwidth{15.75e9},
          .inter_bandwidth = base::Bandwidth{12.5e9},
          .tflops = 14.13,
          .price_per_hour = 3.06};
}

TEST(ClusterFile, GoldenSampleReadsAndWritesItself) {
  const auto cluster = load_cluster(kData + "cluster.yaml");
  ASSERT_TRUE(cluster.ok()) << cluster.error().to_string();
  EXPECT_EQ(*cluster, *Cluster::make({big_node(), {.name = "small", .devices = 2, .speed = 0.5}}));
  EXPECT_EQ(to_cluster_yaml(*cluster), yoke::testing::read_text(kData + "cluster.yaml"));
}

TEST(ClusterFile, HandWrittenFilesAreShortAndUseUnits) {
  const auto cluster = parse_cluster(
      "nodes:\n"
      "  - {name: a, devices: 8, memory: 16GiB, intra_bandwidth: 12.5GB/s, inter_bandwidth: 10Gbit/s}\n"
      "  - name: b\n",
      "c.yaml");
  ASSERT_TRUE(cluster.ok()) << cluster.error().to_string();
  const Node& a = cluster->nodes()[0];
  EXPECT_EQ(a.memory, base::Bytes{16LL << 30});
  EXPECT_EQ(a.intra_bandwidth, base::Bandwidth{12.5e9});
  EXPECT_EQ(a.inter_bandwidth, base::Bandwidth{1.25e9});
  EXPECT_EQ(cluster->nodes()[1], Node{.name = "b"});
}

TEST(ClusterFile, JsonIsReadToo) {
  const auto cluster = parse_cluster(R"({"version": 1, "nodes": [{"name": "a", "devices": 2}]})", "c.json");
  ASSERT_TRUE(cluster.ok()) << cluster.error().to_string();
  EXPECT_EQ(cluster->device_count(), 2);
}

TEST(ClusterFile, OddNamesSurvive) {
  for (const std::string& name : std::vector<std::string>{"true", "null", "12", "1e5", "fe80::1", "a\"b", "a\\b", "#x",
                                                          "-", "&a", "N\xc3\xb6", "nan"}) {
    const auto cluster = Cluster::make({{.name = name, .type = name}});
    ASSERT_TRUE(cluster.ok()) << cluster.error().to_string();
    const auto again = parse_cluster(to_cluster_yaml(*cluster), "again");
    ASSERT_TRUE(again.ok()) << name << ": " << again.error().to_string();
    EXPECT_EQ(*again, *cluster);
  }
}

TEST(ClusterFile, NumbersSurviveToTheLastDigit) {
  Node node = big_node();
  node.memory = base::Bytes{9007199254740993};  // not a double
  node.intra_bandwidth = base::Bandwidth{1e10 / 3};
  node.speed = 0.1;
  node.tflops = 1e-300;
  const auto cluster = Cluster::make({node});
  ASSERT_TRUE(cluster.ok());
  const auto again = parse_cluster(to_cluster_yaml(*cluster), "again");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(*again, *cluster);
}

TEST(ClusterFile, LoadTellsTheFormatsApart) {
  const yoke::testing::TempFolder folder;
  const auto names = [](const base::Result<Cluster>& cluster) {
    EXPECT_TRUE(cluster.ok()) << cluster.error().to_string();
    std::string all;
    for (const auto& node : cluster->nodes()) all += node.name + " ";
    return all;
  };
  EXPECT_EQ(names(load_cluster(kData + "cluster_info.json")), "alpha beta ");
  EXPECT_EQ(names(load_cluster(kData + "hostfile")), "node0 node1 node2 fe80::1 fe80::2 node3 ");
  EXPECT_EQ(names(load_cluster(folder.write("a", "nodes:\n- name: y"))), "y ");
  EXPECT_EQ(names(load_cluster(folder.write("b", "\"nodes\": [{name: y}]"))), "y ");
  EXPECT_EQ(names(load_cluster(folder.write("c", "nodes:8\nversion slots=2"))), "nodes version ");
  EXPECT_EQ(names(load_cluster(folder.write("d", R"({"nodes": [{"name": "y"}]})"))), "y ");
  EXPECT_EQ(names(load_cluster(folder.write("e", R"({"nodes": {"type": "t", "number": 1,
      "intra_network_bandwidth": 1, "inter_network_bandwidth": 1}})"))),
            "nodes ");
}

TEST(ClusterFile, RealClustersAreRead) {
  YOKE_NEEDS_SHARED_DATA();
  for (const std::string& name : std::vector<std::string>{"jabas-quickstart", "iidp-quickstart"}) {
    const auto cluster = load_cluster(yoke::testing::shared_data() + "/" + name + "/cluster_info.json");
    ASSERT_TRUE(cluster.ok()) << cluster.error().to_string();
    EXPECT_EQ(cluster->device_count(), 8);
  }
}

TEST(ClusterFile, SaveThenLoad) {
  const yoke::testing::TempFolder folder;
  const auto cluster = Cluster::make({big_node()});
  ASSERT_TRUE(cluster.ok());
  ASSERT_TRUE(save_cluster(folder.file("c.yaml"), *cluster).ok());
  const auto again = load_cluster(folder.file("c.yaml"));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *cluster);
}

TEST(ClusterFile, BadInputIsOneErrorWithItsPlace) {
  const auto parse = [](const std::string& text) { return parse_cluster(text, "c.yaml"); };
  const auto node = [&](const std::string& field) { return parse("nodes:\n- name: a\n  " + field + "\n"); };
  expect_input_error(parse(""), "c.yaml: the file is empty");
  expect_input_error(parse("nodes: []"), "c.yaml:1: nodes: found no node");
  expect_input_error(parse("nodes: 3"), "c.yaml:1: nodes: found `3`, expected a list");
  expect_input_error(parse("nodes: [a]"), "c.yaml:1: nodes[0]: found the text `a`, expected a map");
  expect_input_error(parse("- a"), "c.yaml:1: found a list of 1, expected a map");
  expect_input_error(parse("node: []"), "required key `nodes` is missing; found only `node`");
  expect_input_error(parse("nodes:\n- devices: 2"), "nodes[0]: required key `name` is missing");
  expect_input_error(node("sped: 0.5"), "c.yaml:3: nodes[0]: unknown key `sped`, did you mean `speed`?");
  expect_input_error(parse("nodes: [{name: a}]\nextra: 1"), "c.yaml:2: unknown key `extra`");
  expect_input_error(node("devices: 0"), "c.yaml:3: nodes[0].devices: found `0`");
  expect_input_error(node("devices: 2.5"), "found `2.5`, expected a whole number");
  expect_input_error(node("devices: 99999999999999999999"), "c.yaml:3: nodes[0].devices");
  expect_input_error(node("devices: many"), "found the text `many`, expected a whole number from 1 to 1000000");
  expect_input_error(node("speed: 2"), "nodes[0].speed: found 2");
  expect_input_error(node("speed: .nan"), "c.yaml:3: nodes[0].speed: found the text `.nan`, expected a number");
  expect_input_error(node("memory: -1"), "c.yaml:3: nodes[0].memory: found `-1`");
  expect_input_error(node("memory: 0"), "nodes[0].memory: found 0");
  expect_input_error(node("memory: 16 Gigs"), "c.yaml:3: nodes[0].memory: found the text `16 Gigs`");
  expect_input_error(node("inter_bandwidth: 1e400"), "c.yaml:3: nodes[0].inter_bandwidth");
  expect_input_error(node("inter_bandwidth: 0"), "nodes[0].inter_bandwidth: found 0");
  expect_input_error(node("tflops: -3"), "nodes[0].tflops: found -3");
  expect_input_error(node("price_per_hour: -3"), "nodes[0].price_per_hour: found -3");
  expect_input_error(node("type: ''"), "nodes[0].type");
  expect_input_error(node("address: a b"), "nodes[0].address: found `a b`");
  expect_input_error(parse("nodes: [{name: a/b}]"), "nodes[0].name: found `a/b`");
  expect_input_error(parse("nodes:\n- name: a\n- name: a"), "c.yaml:3: nodes[1]: the node `a` is given twice");
  expect_input_error(parse("nodes:\n- name: a\n  name: b"), "c.yaml:3: the key `name` is given twice");
  expect_input_error(parse("version: 2\nnodes: [{name: a, colour: red}]"),
                     "c.yaml:1: version: found version 2 of yoke-cluster, expected at most 1");
  expect_input_error(parse("format: yoke-plan\nnodes: [{name: a}]"), "found `yoke-plan`, expected yoke-cluster");
  expect_input_error(parse("nodes: [{name: a"), "c.yaml:1: ");
  expect_input_error(parse("nodes:\n- name: \"a"), "c.yaml:2: not valid YAML");
  expect_input_error(parse("{\"nodes\": [{\"name\": \"a\""), "c.yaml:1: not valid JSON");
}

TEST(ClusterFile, BadPathsAreInputErrors) {
  const yoke::testing::TempFolder folder;
  expect_input_error(load_cluster(folder.file("missing")), "cannot open the file: No such file");
  expect_input_error(load_cluster(folder.path()), "found a folder, expected a file");
  expect_input_error(load_cluster(folder.write("empty", "")), "the file is empty");
  expect_input_error(load_cluster(folder.write("empty.json", " \n")), "the file is empty");
  expect_input_error(load_cluster(folder.write("garbage", std::string(1000, '\x01'))), "garbage:1: found `\\x01");
  std::filesystem::resize_file(folder.write("huge", "x"), 100 << 20);
  expect_input_error(load_cluster(folder.file("huge")), "found 104857600 bytes, expected at most");
}

TEST(ClusterFile, NoPermissionIsAnInputError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const yoke::testing::TempFolder folder;
  const std::string path = folder.write("secret.yaml", "nodes: [{name: a}]");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  expect_input_error(load_cluster(path), "Permission denied");
}

}  // namespace
}  // namespace yoke::cluster
