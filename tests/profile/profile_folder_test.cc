#include "yoke/profile/profile_folder.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/support/files.h"
#include "tests/support/paths.h"
#include "yoke/profile/pipedream/graph_text.h"

namespace yoke::profile {
namespace {

using yoke::testing::expect_input_error;
using Json = nlohmann::ordered_json;

const std::string kSample = std::string(yoke::testing::kSourceDir) + "/tests/profile/data/folder";

ProfileSet sample_set() {
  return {.model = "tiny",
          .nodes = {{.node = "east",
                     .device_type = "Fast GPU",
                     .by_lbs = {{16,
                                 {2,
                                  base::Bytes{9007199254740993},  // not a double
                                  {{1, 44, 2.5, 12.5, 25, 1.5, 0, 0.75, 40.25, Confidence{0.0125, 12, true, 3}},
                                   {2, 73.5, 5, 22.5, 44.5, 1.5, 0.5, 0.75}},
                                  MemoryParts{4096, 4096, 8192, 64, 9007199254740993, 128, 20480, true, false}}},
                                {32, {std::nullopt, std::nullopt, {{1, 80, 5, 25.1, 50, 1.5, 0, 0}}}}},
                     .setup = "3x8x8, 10 classes, sgd"},
                    {.node = "fe80::1", .device_type = "cpu", .by_lbs = {{16, {1, std::nullopt, {}}}}}},
          .buckets = {{1.5, 25.25, 9}},
          .comm = {.intra = {{0.25, 1.5}, {1, 2.25}}, .inter = {}}};
}

LayerGraph sample_graph() {
  auto graph = LayerGraph::make({{.id = "in", .description = "Input", .output_bytes = {0}},
                                 {.id = "lstm",
                                  .description = "LSTM(8, \"x\")",
                                  .forward_ms = 1.5,
                                  .backward_ms = 1.0 / 3,
                                  .output_bytes = {64, 32.5},
                                  .parameter_bytes = 1e12,
                                  .update_ms = 0.125,
                                  .stage = 2}},
                                {{0, 1}, {0, 1}});
  EXPECT_TRUE(graph.ok());
  return graph->with_lbs(8).with_confidence(Confidence{0.0625, 9, false, 3});
}

TEST(ProfileFolder, GoldenSampleReadsAndWritesItself) {
  const auto profiles = load_profiles(kSample);
  ASSERT_TRUE(profiles.ok()) << profiles.error().to_string();
  EXPECT_EQ(*profiles, sample_set());
  const auto graph = load_layers(kSample);
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  EXPECT_EQ(*graph, sample_graph());

  const yoke::testing::TempFolder copy;
  ASSERT_TRUE(save_profiles(copy.path(), *profiles).ok());
  ASSERT_TRUE(save_layers(copy.path(), *graph).ok());
  for (const char* name : {"nodes/east.json", "nodes/fe80::1.json", "buckets.json", "comm.json", "layers.json"}) {
    EXPECT_EQ(yoke::testing::read_text(copy.file(name)), yoke::testing::read_text(kSample + "/" + name));
  }
}

TEST(ProfileFolder, EstimatesStayEstimates) {
  NodeFile node{.model = "tiny", .profile = sample_set().nodes[0]};
  EXPECT_EQ(to_node_json(node).find("source"), std::string::npos) << "measured is what files without a word are";
  node.profile.source = Source::kEstimate;
  const auto again = parse_node_file(to_node_json(node), "again");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(*again, node);
  EXPECT_NE(again->profile, sample_set().nodes[0]);
  const LayerGraph graph = sample_graph().with_source(Source::kEstimate);
  const auto read = parse_layers_file(to_layers_json(graph), "again");
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->source(), Source::kEstimate);
  EXPECT_EQ(*read, graph);
  CommProfile comm = sample_set().comm;
  comm.source = Source::kEstimate;
  EXPECT_EQ(*parse_comm_file(to_comm_json(comm), "again"), comm);
  ProfileSet set = sample_set();
  set.nodes[1].source = Source::kEstimate;
  EXPECT_THAT(set.estimated_nodes(), ::testing::ElementsAre("fe80::1"));
}

TEST(ProfileFolder, LinksAndSpreadsSurvive) {
  CommProfile comm{
      .intra = {{0.25, 1.5, 4096, 0.125}, {1, 2.25}}, .inter = {}, .intra_bandwidth = base::Bandwidth{1.0 / 3}};
  EXPECT_NE(to_comm_json(comm).find("\"version\": 2"), std::string::npos);
  EXPECT_NE(to_comm_json(sample_set().comm).find("\"version\": 1"), std::string::npos) << "older readers know it";
  comm.links = {{.scope = LinkScope::kInter,
                 .op = LinkOp::kMessage,
                 .backend = "gloo",
                 .ranks = 3,
                 .between = {"a", "b"},
                 .latency_ms = 0.0625,
                 .bandwidth = {1.25e9},
                 .error = 0.02,
                 .points = {{4096, 0.07, 0.01, 200}, {100'000'000, 80.5, 1.5, 5}}},
                {.backend = "shm", .latency_ms = 0, .bandwidth = {1}, .points = {}}};
  EXPECT_NE(to_comm_json(comm).find("\"version\": 2"), std::string::npos);
  comm.links[0].processor_seconds_per_byte = 1.5e-10;
  EXPECT_NE(to_comm_json(comm).find("\"version\": 3"), std::string::npos);
  const auto again = parse_comm_file(to_comm_json(comm), "again");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(*again, comm);
}

TEST(ProfileFolder, NodesAreGatheredByCopyingFiles) {
  const yoke::testing::TempFolder here;
  const yoke::testing::TempFolder there;
  const ProfileSet both = sample_set();
  ProfileSet one = both;
  one.nodes.pop_back();
  ASSERT_TRUE(save_profiles(here.path(), one).ok());
  ProfileSet other{.model = both.model, .nodes = {both.nodes.back()}};
  ASSERT_TRUE(save_profiles(there.path(), other).ok());
  EXPECT_EQ(*load_profiles(there.path()), other) << "buckets and comm may be absent";
  std::filesystem::copy(there.file("nodes/fe80::1.json"), here.file("nodes"));
  const auto gathered = load_profiles(here.path());
  ASSERT_TRUE(gathered.ok()) << gathered.error().to_string();
  EXPECT_EQ(*gathered, both);
}

TEST(ProfileFolder, FirstVersionIsStillRead) {
  const auto node = parse_node_file(R"({"format": "yoke-node-profile", "version": 1, "model": "m", "node": "n",
    "device_type": "cpu", "local_batches": [{"lbs": 8, "max_vsw": 1, "compute": []}]})",
                                    "old.json");
  ASSERT_TRUE(node.ok()) << node.error().to_string();
  EXPECT_EQ(node->profile.setup, "");
  EXPECT_FALSE(node->profile.by_lbs.at(8).memory);
}

TEST(ProfileFolder, ConfidenceOfTheSecondVersionSaysNothingOfVisits) {
  const auto node = parse_node_file(R"({"format": "yoke-node-profile", "version": 2, "model": "m", "node": "n",
    "device_type": "cpu", "local_batches": [{"lbs": 8, "compute": [{"vsw": 1, "total_ms": 4, "data_ms": 0,
    "forward_ms": 1, "backward_ms": 2, "update_ms": 1, "copy_ms": 0, "bn_sync_ms": 0,
    "confidence": {"spread": 0.01, "count": 5, "noisy": false}}]}]})",
                                    "old.json");
  ASSERT_TRUE(node.ok()) << node.error().to_string();
  EXPECT_FALSE(node->profile.by_lbs.at(8).compute.front().confidence->visits) << "it is complete";
}

TEST(ProfileFolder, LayersWithoutBatchAndUpdatesAreOfTheFirstVersion) {
  auto layers = sample_graph().layers();
  layers[1].update_ms = 0;
  const LayerGraph plain = *LayerGraph::make(layers, sample_graph().edges());
  const std::string text = to_layers_json(plain);
  EXPECT_NE(text.find("\"version\": 1"), std::string::npos) << "older readers know it";
  EXPECT_EQ(text.find("update_ms"), std::string::npos);
  const auto again = parse_layers_file(text, "again");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(*again, plain);
  EXPECT_FALSE(again->lbs());
  EXPECT_NE(to_layers_json(plain.with_lbs(8)).find("\"version\": 2"), std::string::npos);
  EXPECT_NE(to_layers_json(plain.with_confidence(Confidence{})).find("\"version\": 3"), std::string::npos);
}

TEST(ProfileFolder, RealGraphsSurvive) {
  YOKE_NEEDS_SHARED_DATA();
  for (const char* name : {"gnmt_large.txt", "nasnetalarge.txt"}) {
    const auto graph = pipedream::load_graph_text(yoke::testing::shared_data() + "/pipedream/profiles/" + name);
    ASSERT_TRUE(graph.ok()) << graph.error().to_string();
    const auto again = parse_layers_file(to_layers_json(*graph), "again");
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    EXPECT_EQ(*again, *graph);
  }
}

/// A copy of the sample that each test spoils in its own way.
class ProfileFolderCopy : public ::testing::Test {
 protected:
  ProfileFolderCopy() { std::filesystem::copy(kSample, folder_.path(), std::filesystem::copy_options::recursive); }

  /// Replaces the value at a JSON pointer in one file of the sample.
  void set(const std::string& file, const std::string& pointer, const Json& value) const {
    Json json = Json::parse(yoke::testing::read_text(kSample + "/" + file));
    json[Json::json_pointer(pointer)] = value;
    folder_.write(file, json.dump(1));
  }
  void erase(const std::string& file, const std::string& key) const {
    Json json = Json::parse(yoke::testing::read_text(kSample + "/" + file));
    json.erase(key);
    folder_.write(file, json.dump(1));
  }
  base::Result<ProfileSet> load() const { return load_profiles(folder_.path()); }

  yoke::testing::TempFolder folder_;
};

TEST_F(ProfileFolderCopy, BadNodeFilesAreOneError) {
  const std::string east = "nodes/east.json";
  const auto expect = [&](const std::string& pointer, const Json& value, const std::string& part) {
    set(east, pointer, value);
    expect_input_error(load(), part);
  };
  expect("/version", 4, "east.json:3: version: found version 4 of yoke-node-profile, expected at most 3");
  expect("/format", "yoke-plan", "east.json:2: format: found `yoke-plan`, expected yoke-node-profile");
  expect("/modle", "x", "unknown key `modle`, did you mean `model`?");
  expect("/source", "estimated", "source: found `estimated`, expected measured or estimate");
  expect("/node", "west", "east.json: node: found the node `west` in the file `east.json`");
  expect("/node", "../x", "expected a name without blanks, commas and slashes");
  expect("/local_batches/1/lbs", 16, "local_batches[1]: the local batch size 16 is given twice");
  expect("/local_batches/0/lbs", 0, "local_batches[0].lbs: found `0`");
  expect("/local_batches/0/max_vsw", 1.5, "local_batches[0].max_vsw: found `1.5`");
  expect("/local_batches/0/total_memory", -1, "local_batches[0].total_memory: found `-1`");
  expect("/local_batches/0/compute/1/vsw", 1, "local_batches[0].compute[1]: found vsw 1 after 1");
  expect("/local_batches/0/compute/0/forward_ms", -1, "compute[0].forward_ms: found `-1`");
  expect("/local_batches/0/compute/0/forward_ms", "1", "compute[0].forward_ms: found the text `1`");
  expect("/local_batches/0/compute/0/colour", 1, "local_batches[0].compute[0]: unknown key `colour`");
  expect("/local_batches/0/compute/0/round_ms", -1, "compute[0].round_ms: found `-1`");
  expect("/local_batches/0/compute/0/confidence/count", 0, "confidence.count: found `0`");
  expect("/local_batches/0/compute/0/confidence/visits", 0, "confidence.visits: found `0`");
  expect("/local_batches/0/memory/worker", -1, "memory.worker: found `-1`");
  expect("/local_batches/0/memory/colour", 1, "memory: unknown key `colour`");
  expect("/local_batches", 7, "local_batches: found `7`, expected a list");
  for (const char* key : {"model", "node", "device_type", "local_batches"}) {
    erase(east, key);
    expect_input_error(load(), std::string("east.json:1: required key `") + key + "` is missing");
  }
  folder_.write(east, "");
  expect_input_error(load(), "east.json: the file is empty");
  folder_.write(east, yoke::testing::read_text(kSample + "/" + east).substr(0, 300));
  expect_input_error(load(), "not valid JSON");
}

TEST_F(ProfileFolderCopy, OtherFilesAreCheckedToo) {
  set("buckets.json", "/model", "huge");
  expect_input_error(load(), "buckets.json: model: found the model `huge`, expected `tiny`");
  set("buckets.json", "/mebibytes/0", 0);
  expect_input_error(load(), "mebibytes[0]: found `0`");
  set("buckets.json", "/mebibytes", Json::array());
  expect_input_error(load(), "mebibytes: found no bucket");
  std::filesystem::remove(folder_.file("buckets.json"));
  set("comm.json", "/intra/0/ideal_ms", -0.5);
  expect_input_error(load(), "intra[0].ideal_ms: found `-0.5`");
  set("comm.json", "/intra/0/other", 1);
  expect_input_error(load(), "intra[0]: unknown key `other`");
  erase("comm.json", "inter");
  expect_input_error(load(), "required key `inter` is missing");
  set("comm.json", "/intra/0/bytes", -1);
  expect_input_error(load(), "intra[0].bytes: found `-1`");
  const Json link{{"scope", "intra"}, {"op", "all_reduce"}, {"backend", "shm"},      {"ranks", 2},
                  {"error", 0},       {"latency_ms", 0},    {"bytes_per_second", 1}, {"points", Json::array()}};
  const auto spoil = [&](const std::string& key, const Json& value, const std::string& part) {
    Json bad = link;
    bad[key] = value;
    set("comm.json", "/links", Json::array({bad}));
    expect_input_error(load(), part);
  };
  spoil("scope", "intre", "links[0].scope: found `intre`");
  spoil("op", "broadcast", "links[0].op: found `broadcast`");
  spoil("ranks", 0, "links[0].ranks: found `0`");
  spoil("bytes_per_second", 0, "links[0].bytes_per_second: found `0`");
  spoil("processor_seconds_per_byte", -1, "links[0].processor_seconds_per_byte: found `-1`");
  spoil("points", 5, "links[0].points: found `5`, expected a list");
  spoil("speed", 5, "links[0]: unknown key `speed`");
}

TEST_F(ProfileFolderCopy, BadLayerFilesAreOneError) {
  const auto expect = [&](const std::string& pointer, const Json& value, const std::string& part) {
    set("layers.json", pointer, value);
    expect_input_error(load_layers(folder_.path()), part);
  };
  expect("/layers/1/id", "in", "layers[1]: the layer `in` is given twice");
  expect("/layers/1/id", "lstm ", "edges[0][1]: there is no layer `lstm`");
  expect("/layers/1/forward_ms", -1, "layers[1].forward_ms: found `-1`");
  expect("/layers/1/update_ms", -1, "layers[1].update_ms: found `-1`");
  expect("/lbs", 0, "lbs: found `0`");
  expect("/confidence/spread", -1, "confidence.spread: found `-1`");
  expect("/version", 4, "found version 4 of yoke-layers, expected at most 3");
  expect("/layers/1/stage", -1, "layers[1].stage: found `-1`");
  expect("/layers/1/output_bytes", 5, "layers[1].output_bytes: found `5`, expected a list");
  expect("/layers", Json::array(), "there is no layer `in`");
  expect("/edges/0", {"in"}, "edges[0]: found no pair");
  expect("/edges/0/1", "gone", "edges[0][1]: there is no layer `gone`");
  expect("/edges/0", {"lstm", "in"}, "layers.json: edges: found the cycle");
  expect("/edges/0", {"in", "in"}, "layers.json: edges: found the cycle `in -> in`, expected a graph without cycles");
}

TEST_F(ProfileFolderCopy, BadFoldersAreInputErrors) {
  expect_input_error(load_profiles(folder_.file("gone")), "gone: cannot read the folder");
  expect_input_error(load_profiles(folder_.file("comm.json")), "comm.json: found a file, expected a folder");
  expect_input_error(load_profiles(folder_.file("nodes")), "but no folder `nodes`, expected a profile folder");
  expect_input_error(load_layers(folder_.file("gone")), "layers.json: cannot open the file");
  folder_.write("nodes/README", "");
  expect_input_error(load(), "nodes/README: found a file that is no node profile");
  std::filesystem::remove_all(folder_.file("nodes"));
  std::filesystem::create_directory(folder_.file("nodes"));
  expect_input_error(load(), "nodes: found no node profile");
  std::filesystem::remove(folder_.file("nodes"));
  folder_.write("nodes", "");
  expect_input_error(load(), "nodes: found a file, expected a folder");
}

TEST_F(ProfileFolderCopy, WhatIsNoFileIsNotTakenAsAbsent) {
  for (const std::string name : {"buckets.json", "comm.json"}) {
    const std::string good = yoke::testing::read_text(folder_.file(name));
    std::filesystem::remove(folder_.file(name));
    EXPECT_TRUE(load().ok()) << "may be absent";
    std::filesystem::create_directory(folder_.file(name));
    expect_input_error(load(), name + ": found a folder, expected a file");
    std::filesystem::remove(folder_.file(name));
    std::filesystem::create_symlink("nothing", folder_.file(name));
    expect_input_error(load(), name + ": cannot open the file");
    std::filesystem::remove(folder_.file(name));
    folder_.write(name, good);
  }
}

TEST_F(ProfileFolderCopy, NoPermissionIsAnInputError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  std::filesystem::permissions(folder_.file("nodes/east.json"), std::filesystem::perms::none);
  expect_input_error(load(), "Permission denied");
}

}  // namespace
}  // namespace yoke::profile
