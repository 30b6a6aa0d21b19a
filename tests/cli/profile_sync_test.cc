// `yoke profile sync` with real processes over loopback and between network namespaces: all folders become one, or all
// stay as they were.
#include <signal.h>

#include <thread>

#include "tests/cli/hosts.h"
#include "tests/cli/run_yoke.h"
#include "tests/support/files.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/two_hosts.h"
#include "yoke/base/sha256.h"
#include "yoke/cli/profile_files.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using yoke::testing::Process;
using yoke::testing::read_text;
using yoke::testing::TempFolder;

std::string node_file(const std::string& node, const std::string& model, double forward_ms = 1) {
  profile::NodeFile file{.model = model, .profile = {.node = node, .device_type = "cpu"}};
  file.profile.by_lbs[8].compute = {{.vsw = 1, .total_ms = 3, .forward_ms = forward_ms, .backward_ms = 2}};
  return profile::to_node_json(file);
}

SyncFile file_of(const std::string& name, const std::string& content, const std::string& model = "") {
  return {name, static_cast<std::int64_t>(content.size()), base::sha256(content), model};
}

TEST(ProfileFiles, HostsAreUnited) {
  const std::vector<HostFiles> hosts{{"a", {file_of("x", "1"), file_of("nodes/a.json", "2", "m")}},
                                     {"b", {file_of("x", "1"), file_of("nodes/b.json", "3", "m")}}};
  const auto united = unite(hosts, std::nullopt);
  ASSERT_TRUE(united.ok()) << united.error().to_string();
  ASSERT_EQ(united->size(), 3U);
  EXPECT_EQ((*united)[0], (SharedFile{hosts[0].files[1], 0}));
  EXPECT_EQ((*united)[1], (SharedFile{hosts[1].files[1], 1}));
  EXPECT_EQ((*united)[2], (SharedFile{hosts[0].files[0], 0}));
}

TEST(ProfileFiles, ConflictsAreNamedWithBothSums) {
  const std::vector<HostFiles> hosts{
      {"a", {file_of("x", "1")}}, {"b", {file_of("x", "2")}}, {"c", {file_of("x", "3")}}};
  yoke::testing::expect_input_error(
      unite(hosts, std::nullopt),
      "x: found sha256 " + base::sha256("1") + " on host a and " + base::sha256("2") + " on host b");
  for (std::size_t preferred = 0; preferred < 3; ++preferred) {
    const auto united = unite(hosts, preferred);
    ASSERT_TRUE(united.ok()) << united.error().to_string();
    EXPECT_EQ(united->front().owner, preferred);
  }
  const std::vector<HostFiles> unlike{{"a", {file_of("nodes/a.json", "1", "vgg")}},
                                      {"b", {file_of("nodes/b.json", "2", "resnet")}}};
  yoke::testing::expect_input_error(unite(unlike, 0), "found the model `vgg` in nodes/a.json (host a, sha256 " +
                                                          base::sha256("1") + ") and the model `resnet`");
  const std::vector<HostFiles> shapes{{"a", {file_of("x", "1")}}, {"b", {file_of("x/y", "2")}}};
  yoke::testing::expect_input_error(unite(shapes, std::nullopt), "x: found a folder of that name on host b");
}

TEST(ProfileFiles, WhatAFolderHoldsOnceIsTheFirstHosts) {
  for (const std::string name : {"layers.json", "comm.json", "comm_profile_data/intra_comm_profile_data.txt"}) {
    const std::vector<HostFiles> hosts{{"a", {}}, {"b", {file_of(name, "2")}}, {"c", {file_of(name, "3")}}};
    const auto united = unite(hosts, std::nullopt);
    ASSERT_TRUE(united.ok()) << united.error().to_string();
    EXPECT_EQ(united->front(), (SharedFile{.file = hosts[1].files[0], .owner = 1, .chosen = true}));
    EXPECT_EQ(unite(hosts, 2)->front().owner, 2U);
    EXPECT_EQ(unite(hosts, 0)->front().owner, 1U) << "the one that is preferred has none";
  }
  yoke::testing::expect_input_error(
      unite({{"a", {file_of("layers/n/8/layers.json", "1")}}, {"b", {file_of("layers/n/8/layers.json", "2")}}},
            std::nullopt),
      "layers/n/8/layers.json: found sha256");
}

TEST(ProfileFiles, HostsWithoutNamesAreToldToTakeOne) {
  for (const std::string name : {"nodes/localhost.json", "layers/localhost/8/layers.json", "8/localhost/times"}) {
    yoke::testing::expect_input_error(
        unite({{"a", {file_of(name, "1", "m")}}, {"b", {file_of(name, "2", "m")}}}, std::nullopt),
        "both were profiled as the node `localhost`: profile each with a name of its own, `yoke profile all --node "
        "NAME`");
  }
}

TEST(ProfileFiles, ManifestsAreNotTrusted) {
  const std::vector<SyncFile> files{file_of("nodes/a.json", "1", "m"), file_of("x", "")};
  EXPECT_EQ(*parse_manifest(to_manifest(files), "a"), files);
  for (const std::string name : {"../x", "/etc/passwd", "a//b", "", "a/..", "a/b\n", "."}) {
    EXPECT_FALSE(parse_manifest(to_manifest({file_of(name, "1")}), "a").ok()) << name;
  }
  EXPECT_FALSE(parse_manifest("{}", "a").ok());
  EXPECT_FALSE(parse_manifest("[{}]", "a").ok());
  const auto expect_fault = [](const std::vector<SyncFile>& told, const std::string& part) {
    yoke::testing::expect_input_error(parse_manifest(to_manifest(told), "a"), part);
  };
  SyncFile odd = files.front();
  odd.sha256 = "\x1b[31m";
  expect_fault({odd}, "expected a SHA-256 sum");
  SyncFile half = files.front();
  half.bytes = kMostSyncBytes / 2;
  EXPECT_TRUE(parse_manifest(to_manifest({half, half}), "a").ok());
  expect_fault({half, half, files.front()}, "bytes: found");
  expect_fault(std::vector<SyncFile>(kMostSyncFiles + 1, files.back()), "found 10001 files, expected at most 10000");
}

TEST(ProfileFiles, TheTargetIsLookedAtFirst) {
  const TempFolder folder;
  const std::vector<SharedFile> coming{{file_of("nodes/b.json", node_file("b", "m"), "m"), 0}};
  EXPECT_THAT(*check_target(folder.file("new"), coming, false), ElementsAre());
  folder.write("nodes/b.json", node_file("b", "m"));
  EXPECT_THAT(*check_target(folder.path(), coming, false), ElementsAre("nodes/b.json"));
  folder.write("nodes/b.json", node_file("b", "m", 7));
  yoke::testing::expect_input_error(check_target(folder.path(), coming, false),
                                    "nodes/b.json: found sha256 " + base::sha256(node_file("b", "m", 7)) +
                                        " here, while the hosts have " + coming[0].file.sha256);
  EXPECT_THAT(*check_target(folder.path(), coming, true), ElementsAre());
  folder.write("nodes/c.json", node_file("c", "other"));
  yoke::testing::expect_input_error(check_target(folder.path(), coming, true), "and the model `other` in nodes/c.json");
  EXPECT_TRUE(check_writable(folder.file("not/there/yet")).ok());
  EXPECT_FALSE(check_writable(folder.file("nodes/c.json")).ok());
  EXPECT_FALSE(check_writable("/proc/self/profiles").ok());
}

TEST(ProfileFiles, WhatCannotBeReadIsNotSent) {
  const TempFolder folder;
  yoke::testing::expect_input_error(read_profile_files(folder.file("gone")), "gone");
  yoke::testing::expect_input_error(read_profile_files(folder.path()), "found no file");
  folder.write("nodes/a.json", "{");
  yoke::testing::expect_input_error(read_profile_files(folder.path()), "a.json");
  folder.write("nodes/a.json", node_file("a", "m"));
  folder.write("buckets.json", profile::to_buckets_json({"other", {{1}}}));
  yoke::testing::expect_input_error(read_profile_files(folder.path()), "expected one model");
  folder.write("buckets.json", profile::to_buckets_json({"m", {{1}}}));
  EXPECT_EQ(read_profile_files(folder.path())->size(), 2U);
  folder.write("has blank", "");
  yoke::testing::expect_input_error(read_profile_files(folder.path()), "`has blank`");
}

/// Folders `a` and `b` to gather from, `to-a` and `to-b` to gather into.
class ProfileSync : public ::testing::Test {
 protected:
  ProfileSync() {
    folder_.write("a/nodes/a.json", node_file("a", "m"));
    folder_.write("b/nodes/b.json", node_file("b", "m"));
    folder_.write("a/buckets.json", profile::to_buckets_json({"m", {{1, 2}}}));
    folder_.write("b/buckets.json", profile::to_buckets_json({"m", {{1, 2}}}));
    folder_.write("b/8/b/max_memory_profile_info.json", "{}");
    folder_.write("a/large.svg", std::string(9'000'000, 's'));  // more than a piece
  }

  std::vector<std::string> words(char host, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"profile",   "sync",
                                 "--from",    folder_.file(std::string(1, host)),
                                 "--to",      to(host),
                                 "--hosts",   "127.0.0.1,127.0.0.1",
                                 "--rank",    host == 'a' ? "0" : "1",
                                 "--port",    port_,
                                 "--timeout", "20s",
                                 "--token",   "secret",
                                 "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string to(char host) const { return folder_.file(std::string("to-") + host); }
  Process start(char host, const std::vector<std::string>& more = {}) const {
    return Process(program(words(host, more)));
  }
  /// Both hosts to their ends.
  std::pair<std::string, std::string> run(int code_a, int code_b, const std::vector<std::string>& more = {}) const {
    Process a = start('a', more);
    Process b = start('b', more);
    const std::string said_by_a = finish(a, code_a);
    return {said_by_a, finish(b, code_b)};
  }
  bool written() const { return std::filesystem::exists(to('a')) || std::filesystem::exists(to('b')); }

  TempFolder folder_;
  std::string port_ = free_port();
};

TEST_F(ProfileSync, EveryHostHasEveryFile) {
  run(0, 0);
  for (const char host : {'a', 'b'}) {
    const auto profiles = profile::load_profiles(to(host));
    ASSERT_TRUE(profiles.ok()) << profiles.error().to_string();
    EXPECT_EQ(profiles->nodes.size(), 2U);
    EXPECT_EQ(read_text(to(host) + "/large.svg"), read_text(folder_.file("a/large.svg")));
    EXPECT_EQ(read_text(to(host) + "/8/b/max_memory_profile_info.json"), "{}");
  }
  const base::Document again = last_json(run(0, 0).second);
  base::Reader reader(again);
  EXPECT_EQ(reader.root().field("written").integer(), 0);
  EXPECT_EQ(reader.root().field("unchanged").integer(), 5);
  for (auto& file : reader.root().field("files").items()) EXPECT_EQ(file.field("sha256").text().size(), 64U);
}

TEST_F(ProfileSync, AConflictIsRefusedEverywhere) {
  folder_.write("b/buckets.json", profile::to_buckets_json({"m", {{1, 3}}}));
  const auto [a, b] = run(2, 2);
  for (const auto& said : {a, b}) {
    EXPECT_THAT(said,
                AllOf(HasSubstr("buckets.json"), HasSubstr(base::sha256(read_text(folder_.file("a/buckets.json")))),
                      HasSubstr(base::sha256(read_text(folder_.file("b/buckets.json"))))));
  }
  EXPECT_FALSE(written());
}

#if YOKE_HAS_PROFILER
TEST_F(ProfileSync, FoldersAsProfilingLeavesThemAreGathered) {
  const auto profile = [&](char host, const std::vector<std::string>& named) {
    std::filesystem::remove_all(folder_.file(std::string(1, host)));
    std::vector<std::string> all{yoke::testing::program("yoke"),
                                 "profile",
                                 "all",
                                 "--model",
                                 "mlp",
                                 "--lbs",
                                 "2",
                                 "--most-vsw",
                                 "1",
                                 "--budget",
                                 "2s",
                                 "--out",
                                 folder_.file(std::string(1, host))};
    all.insert(all.end(), named.begin(), named.end());
    Process process(all);
    finish(process);
  };
  // Two devices each, so that there are links between them too.
  for (const std::string name : {"a", "b"}) {
    const std::string cluster = folder_.write(name + ".yaml", "nodes:\n- {name: " + name + ", devices: 2}\n");
    profile(name[0], {"--cluster", cluster});
  }
  const base::Document said = last_json(run(0, 0).second);
  base::Reader reader(said);
  std::vector<std::string> notes;
  for (auto& note : reader.root().field("notes").items()) notes.push_back(note.text());
  EXPECT_THAT(notes, ::testing::IsSupersetOf({HasSubstr("layers.json: the hosts have different ones, that of host"),
                                              HasSubstr("comm.json: the hosts have different ones")}));
  for (const char host : {'a', 'b'}) {
    EXPECT_EQ(profile::load_profiles(to(host))->nodes.size(), 2U);
    for (const char* name : {"layers.json", "comm.json"}) {
      EXPECT_EQ(read_text(to(host) + "/" + name), read_text(folder_.file(std::string("a/") + name)));
    }
    for (const std::string node : {"a", "b"}) {
      const std::string own = "/layers/" + node + "/2/layers.json";
      EXPECT_EQ(read_text(to(host) + own), read_text(folder_.file(node + own)));
    }
    std::filesystem::remove_all(to(host));
  }

  for (const char host : {'a', 'b'}) profile(host, {});
  EXPECT_THAT(run(2, 2).second, AllOf(HasSubstr("profiled as the node `localhost`"), HasSubstr("--node NAME")));
  EXPECT_FALSE(written());
}
#endif

TEST_F(ProfileSync, AnotherModelIsRefusedEverywhere) {
  folder_.write("b/nodes/b.json", node_file("b", "other"));
  std::filesystem::remove(folder_.file("b/buckets.json"));
  const auto [a, b] = run(2, 2);
  EXPECT_THAT(a, AllOf(HasSubstr("the model `m`"), HasSubstr("the model `other`"), HasSubstr("nodes/b.json")));
  EXPECT_FALSE(written());
}

TEST_F(ProfileSync, AnOldFileIsReplacedOnlyWhenAsked) {
  folder_.write("to-b/nodes/a.json", node_file("a", "m", 9));
  const auto [a, b] = run(4, 2);
  EXPECT_THAT(b, AllOf(HasSubstr("nodes/a.json"), HasSubstr("--replace")));
  EXPECT_THAT(a, HasSubstr("host 127.0.0.1 (rank 1) has failed"));
  EXPECT_FALSE(std::filesystem::exists(to('a')));
  EXPECT_EQ(read_text(to('b') + "/nodes/a.json"), node_file("a", "m", 9));
  run(0, 0, {"--replace"});
  EXPECT_EQ(read_text(to('b') + "/nodes/a.json"), node_file("a", "m"));
}

TEST_F(ProfileSync, AWrongTokenLetsNobodyIn) {
  auto patient = words('a');
  *std::ranges::find(patient, "20s") = "3s";
  Process a(program(patient));
  auto wrong = words('b');
  *std::ranges::find(wrong, "secret") = "guess";
  Process b(program(wrong));
  EXPECT_THAT(finish(b, 2), AllOf(HasSubstr("--token"), HasSubstr("refuses the token")));
  EXPECT_THAT(finish(a, 4), HasSubstr("host 127.0.0.1 (rank 1) did not answer within 3.00 s"));
  EXPECT_FALSE(written());
}

TEST_F(ProfileSync, AHostThatIsKilledIsMissedAtOnce) {
  // The third one never comes, so that the first two wait.
  const auto three = [&](const std::string& rank) {
    return program({"profile", "sync", "--from", folder_.file("a"), "--to", folder_.file("to-" + rank), "--hosts",
                    "127.0.0.1,127.0.0.2,127.0.0.3", "--rank", rank, "--port", port_, "--timeout", "50s", "--token",
                    "t"});
  };
  Process first(three("0"));
  Process second(three("1"));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const auto begin = std::chrono::steady_clock::now();
  ::kill(second.pid(), SIGINT);
  EXPECT_TRUE(second.wait(std::chrono::seconds(10)));
  EXPECT_THAT(finish(first, 4), HasSubstr("host 127.0.0.2 (rank 1) was lost"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40)) << "not by its timeout";
  EXPECT_FALSE(std::filesystem::exists(folder_.file("to-0")));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("to-1")));
}

TEST_F(ProfileSync, BadInputIsRefusedBeforeAnybodyIsAsked) {
  const auto expect = [&](const std::string& option, const std::string& value, const std::string& message) {
    auto arguments = words('a');
    const auto at = std::ranges::find(arguments, option);
    if (at == arguments.end()) {
      arguments.insert(arguments.end(), {option, value});
    } else {
      *(at + 1) = value;
    }
    const Outcome outcome = yoke(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(message));
  };
  expect("--from", folder_.file("gone"), "gone");
  expect("--to", "/proc/self/to", "cannot write here");
  expect("--prefer", "127.0.0.9", "found `127.0.0.9`, expected one of --hosts");
  expect("--port", "70000", "found 70000, expected 1 to 65535");
  expect("--timeout", "never", "--timeout");
  expect("--token-file", folder_.write("token", ""), "expected one of them");
  const Outcome second =
      yoke({"profile", "sync", "--from", folder_.file("a"), "--to", to('a'), "--hosts", "x,y", "--rank", "1"});
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.err, HasSubstr("--token: found none, expected the one that host x shows"));
}

TEST_F(ProfileSync, HostsOfTheirOwnNetworks) {
  const yoke::testing::TwoHosts two;
  if (!two.works()) GTEST_SKIP() << "needs iproute2 and the right to make network namespaces";
  folder_.write("token", "secret\n");
  std::vector<Process> hosts;
  for (const char host : {'a', 'b'}) {
    hosts.push_back(
        two.start(host, program({"profile", "sync", "--from", folder_.file(std::string(1, host)), "--to", to(host),
                                 "--hosts", "10.77.0.1,10.77.0.2", "--token-file", folder_.file("token")})));
  }
  for (auto& host : hosts) EXPECT_THAT(finish(host), HasSubstr("all checksums right"));
  EXPECT_EQ(profile::load_profiles(to('b'))->nodes.size(), 2U);
}

}  // namespace
}  // namespace yoke::cli
