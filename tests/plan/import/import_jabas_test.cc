#include "yoke/plan/import/jabas.h"

#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/files.h"
#include "tests/support/paths.h"
#include "yoke/base/text.h"

namespace yoke::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using yoke::testing::expect_input_error;

const std::string kSample = std::string(yoke::testing::kSourceDir) + "/tests/plan/import/data/jabas";

/// Relative path -> content that can be compared: JSON parsed, numbers of text files parsed, so that only values count.
std::map<std::string, nlohmann::json> contents(const std::string& folder) {
  std::map<std::string, nlohmann::json> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().string();
    const std::string text = yoke::testing::read_text(path);
    files[path.substr(folder.size())] =
        path.ends_with(".json") ? nlohmann::json::parse(text) : nlohmann::json(std::string(base::trim(text)));
  }
  return files;
}

void expect_round_trip(const std::string& folder) {
  SCOPED_TRACE(folder);
  const auto workspace = load_jabas(folder + "/config.json");
  ASSERT_TRUE(workspace.ok()) << workspace.error().to_string();
  EXPECT_THAT(workspace->notes, IsEmpty());
  const yoke::testing::TempFolder copy;
  ASSERT_TRUE(save_jabas(copy.path(), *workspace).ok());
  const auto again = load_jabas(copy.file("config.json"));
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->config, workspace->config);
  EXPECT_EQ(again->cluster, workspace->cluster);
  EXPECT_EQ(again->profiles, workspace->profiles);
  EXPECT_EQ(contents(copy.path()), contents(folder));
}

TEST(Jabas, GoldenSampleRoundTrips) {
  expect_round_trip(kSample);
}

TEST(Jabas, GoldenSampleIsRead) {
  const auto workspace = load_jabas(kSample + "/config.json");
  ASSERT_TRUE(workspace.ok()) << workspace.error().to_string();
  EXPECT_EQ(workspace->config.batch_size_upper_bound, 4096);
  EXPECT_EQ(workspace->cluster.device_count(), 6);
  ASSERT_EQ(workspace->profiles.nodes.size(), 2U);
  const auto& fast = workspace->profiles.nodes[0];
  EXPECT_EQ(fast.node, "fast");
  EXPECT_EQ(fast.by_lbs.at(16).max_vsw, 2);
  EXPECT_EQ(fast.by_lbs.at(16).compute.at(1).forward_ms, 22.5);
  EXPECT_EQ(workspace->profiles.comm.inter.size(), 2U);
}

TEST(Jabas, RealWorkspacesRoundTrip) {
  YOKE_NEEDS_SHARED_DATA();
  expect_round_trip(yoke::testing::shared_data() + "/jabas-quickstart");
  expect_round_trip(yoke::testing::shared_data() + "/iidp-quickstart");
}

/// A copy of the sample that each test spoils in its own way.
class JabasCopy : public ::testing::Test {
 protected:
  JabasCopy() { std::filesystem::copy(kSample, folder_.path(), std::filesystem::copy_options::recursive); }
  base::Result<JabasWorkspace> load() const { return load_jabas(folder_.file("config.json")); }
  void set(const std::string& file, const std::string& key, const nlohmann::ordered_json& value) const {
    auto json = nlohmann::ordered_json::parse(yoke::testing::read_text(folder_.file(file)));
    json[key] = value;
    folder_.write(file, json.dump(1));
  }
  yoke::testing::TempFolder folder_;
};

TEST_F(JabasCopy, ServersTheConfigDoesNotNameAreNoted) {
  set("config.json", "available_servers", {"fast"});
  const auto workspace = load();
  ASSERT_TRUE(workspace.ok()) << workspace.error().to_string();
  EXPECT_EQ(workspace->cluster.nodes().size(), 1U);
  EXPECT_THAT(workspace->notes,
              ElementsAre(HasSubstr("cluster_info.json: slow is not an available server"),
                          HasSubstr("cluster_mem_profile_data/16/slow is not of an available server"),
                          HasSubstr("cluster_comp_profile_data/16/slow is not of an available server")));
}

TEST_F(JabasCopy, UnusedKeysAreNoted) {
  set("config.json", "colour", "red");
  EXPECT_THAT(load()->notes, ElementsAre(HasSubstr("config.json: `colour` is not used")));
}

TEST_F(JabasCopy, UnknownServersAreErrors) {
  set("config.json", "available_servers", {"fast", "slwo"});
  expect_input_error(load(), "config.json: available_servers: the cluster has no node `slwo`, did you mean `slow`?");
}

TEST_F(JabasCopy, TheClustersGpuTypeMustBeTheProfiles) {
  auto json = nlohmann::ordered_json::parse(yoke::testing::read_text(folder_.file("cluster_info.json")));
  json["fast"]["type"] = "Other GPU";
  folder_.write("cluster_info.json", json.dump());
  expect_input_error(load(), "gpu_type: found `Fast GPU`, expected `Other GPU`");
}

TEST_F(JabasCopy, MissingPartsAreErrors) {
  set("config.json", "comm_profile_dir", "nowhere");
  expect_input_error(load(), "config.json: comm_profile_dir: there is no `nowhere` nor `");
  set("config.json", "gpu_cluster_info", "nowhere.json");
  expect_input_error(load(), "config.json: gpu_cluster_info: there is no `nowhere.json` nor `");
  expect_input_error(load_jabas(folder_.file("nowhere.json")), "nowhere.json: cannot open the file");
  expect_input_error(load_jabas(folder_.path()), "found a folder, expected a file");
}

}  // namespace
}  // namespace yoke::plan
