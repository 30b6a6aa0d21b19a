#include "yoke/profile/jabas/folders.h"

#include <unistd.h>

#include "tests/support/files.h"
#include "yoke/profile/jabas/profile_files.h"

namespace yoke::profile::jabas {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using yoke::testing::expect_input_error;

ProfileSet small_set() {
  const ComputeSample one{1, 110, 4, 30, 66, 7, 0, 6};
  const ComputeSample three{3, 280, 12, 90, 170, 5, 4, 6.29};
  return {.model = "m",
          .nodes = {{.node = "b",
                     .device_type = "fast",
                     .by_lbs = {{32, {3, base::Bytes{1000}, {one, three}}}, {64, {1, std::nullopt, {one}}}}},
                    {.node = "a", .device_type = "slow", .by_lbs = {{32, {1, base::Bytes{2000}, {one}}}}}},
          .buckets = {{7.81, 25.5}},
          .comm = {.intra = {{0.1, 3}, {1, 4}}, .inter = {{0.2, 5}}}};
}

/// A copy of small_set() on disk that each test spoils in its own way.
class JabasFolders : public ::testing::Test {
 protected:
  JabasFolders() { EXPECT_TRUE(save_folders(folders_, small_set()).ok()); }

  base::Result<ImportedProfiles> load() const {
    return load_folders(folders_, {{"b", "fast"}, {"a", "slow"}}, {"other"});
  }
  std::string compute_file(const std::string& gpu, int lbs, int vsw) const {
    return to_compute_json({"m", gpu, lbs, {vsw, 1, 1, 1, 1, 1, 1, 1}, {}});
  }

  yoke::testing::TempFolder folder_;
  Folders folders_{folder_.file("mem"), folder_.file("comp"), folder_.file("comm"), folder_.file("bucket")};
};

TEST_F(JabasFolders, WhatIsSavedIsLoaded) {
  const auto imported = load();
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  EXPECT_EQ(imported->profiles, small_set());
  EXPECT_THAT(imported->notes, IsEmpty());
}

TEST_F(JabasFolders, ServersWithoutAKnownTypeTakeTheFiles) {
  const auto imported = load_folders(folders_, {{"b", ""}, {"a", ""}});
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  EXPECT_EQ(imported->profiles, small_set());
}

TEST_F(JabasFolders, OtherHostsAndStrayFilesAreNoted) {
  folder_.write("comp/32/other/x.json", "garbage");
  folder_.write("mem/README", "");
  folder_.write("mem/32/README", "");
  folder_.write("mem/32/a/old.json", "garbage");
  folder_.write("comp/32/a/notes.txt", "");
  folder_.write("comm/summary.pdf", "");
  folder_.write("bucket/a_first.json", "garbage");
  folder_.write("comp/64/a/x.json", compute_file("slow", 64, 1));
  const auto imported = load();
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  EXPECT_THAT(imported->notes, Contains(HasSubstr("comp/32/other is not of an available server")));
  EXPECT_THAT(imported->notes, Contains(HasSubstr("mem/README is not a folder of profiles")));
  EXPECT_THAT(imported->notes, Contains(HasSubstr("mem/32/README is not a folder of profiles")));
  EXPECT_THAT(imported->notes, Contains(HasSubstr("mem/32/a/old.json is not a memory profile")));
  EXPECT_THAT(imported->notes, Contains(HasSubstr("comp/32/a/notes.txt is not a compute profile")));
  EXPECT_THAT(imported->notes, Contains(HasSubstr("comm/summary.pdf is not an intra or inter profile")));
  EXPECT_THAT(imported->notes, Contains(HasSubstr("bucket/a_first.json is not used")));
  EXPECT_THAT(imported->notes, Contains("node a has no memory profile of lbs 64"));
  EXPECT_EQ(imported->notes.size(), 8U);
}

TEST_F(JabasFolders, AHostThatTheClusterDoesNotHaveIsAnError) {
  folder_.write("comp/32/othr/x.json", compute_file("slow", 32, 1));
  expect_input_error(load(),
                     "comp/32/othr: found profiles of the host `othr`, which the cluster does not have, did you "
                     "mean `other`?");
}

TEST_F(JabasFolders, AnotherModelIsNoted) {
  folder_.write("bucket/z.json", R"({"model": "other", "bucket_size_distribution": [1]})");
  const auto imported = load();
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  EXPECT_THAT(imported->notes, Contains(HasSubstr("z.json is of the model `other`, others of `m`")));
}

TEST_F(JabasFolders, FilesMustAgreeWithTheirPlace) {
  folder_.write("comp/32/a/x.json", compute_file("slow", 64, 2));
  expect_input_error(load(), "comp/32/a/x.json: lbs: found lbs 64 in the folder of lbs 32");
  folder_.write("comp/32/a/x.json", compute_file("fast", 32, 2));
  expect_input_error(load(), "comp/32/a/x.json: gpu_type: found `fast`, expected `slow`, which node `a` has");
  folder_.write("comp/32/a/x.json", compute_file("slow", 32, 1));
  expect_input_error(load(), "comp/32/a/x.json: num_models: found num_models 1, which another file of the folder has");
  folder_.write("comp/32/a/x.json", "{");
  expect_input_error(load(), "comp/32/a/x.json:1: not valid JSON");
}

TEST_F(JabasFolders, MissingNodesAndFilesAreErrors) {
  expect_input_error(load_folders(folders_, {{"gone", ""}}, {"a", "b"}), "mem: found no profile of node `gone`");
  std::filesystem::remove(folder_.file("mem/32/a/max_memory_profile_info.json"));
  expect_input_error(load(), "max_memory_profile_info.json: cannot open the file");
  std::filesystem::remove_all(folder_.file("mem/32/a"));
  expect_input_error(load(), "mem: found no profile of node `a`");
  std::filesystem::remove(folder_.file("comp/32/a/m_32_1_comp_profile.json"));
  expect_input_error(load(), "comp/32/a: found no compute profile");
  std::filesystem::remove_all(folder_.file("comm"));
  expect_input_error(load_folders(folders_, {{"b", ""}}, {"a"}), "comm: cannot read the folder");
}

TEST_F(JabasFolders, FoldersThatAreFilesAndNamesThatAreNoSizes) {
  folder_.write("comp/32x/a/x.json", "");
  expect_input_error(load(), "found the folder `32x`, expected a local batch size");
  std::filesystem::remove_all(folder_.file("comp/32x"));
  std::filesystem::remove_all(folder_.file("mem/32/a"));
  folder_.write("mem/32/a", "a file");
  expect_input_error(load(), "mem/32/a: found a file, expected a folder");
  std::filesystem::remove_all(folder_.file("mem"));
  folder_.write("mem", "a file");
  expect_input_error(load(), "mem: found a file, expected a folder");
}

TEST_F(JabasFolders, CommAndBucketFolders) {
  folder_.write("comm/second_intra.txt", "1,2");
  expect_input_error(load(), "second_intra.txt: found a second intra profile");
  std::filesystem::remove_all(folder_.file("comm"));
  folder_.write("comm/only_intra.txt", "1,2");
  EXPECT_THAT(load()->notes, Contains(HasSubstr("comm has no inter profile")));
  std::filesystem::remove(folder_.file("comm/only_intra.txt"));
  expect_input_error(load(), "comm: found no communication profile");
  folder_.write("comm/only_intra.txt", "1,2");
  std::filesystem::remove(folder_.file("bucket/m_bucket_size_profile.json"));
  expect_input_error(load(), "bucket: found no bucket profile");
}

TEST_F(JabasFolders, NoPermissionIsAnInputError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every folder";
  std::filesystem::permissions(folder_.file("comp/32"), std::filesystem::perms::none);
  expect_input_error(load(), "Permission denied");
  std::filesystem::permissions(folder_.file("comp/32"), std::filesystem::perms::owner_all);
}

TEST_F(JabasFolders, NothingInvalidIsSaved) {
  ProfileSet bad = small_set();
  bad.nodes[0].by_lbs[32].compute[0].forward_ms = -1;
  const yoke::testing::TempFolder empty;
  EXPECT_FALSE(save_folders({empty.file("m"), empty.file("c"), empty.file("o"), empty.file("b")}, bad).ok());
  EXPECT_TRUE(std::filesystem::is_empty(empty.path()));
}

}  // namespace
}  // namespace yoke::profile::jabas
