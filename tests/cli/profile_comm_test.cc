// `yoke profile comm` by threads, by processes, under mpirun and between hosts. What is measured is up to the machine;
// how it is put together is not.
#include "yoke/cli/profile_comm.h"

#include <signal.h>
#include <unistd.h>

#include "tests/cli/hosts.h"
#include "tests/cli/run_yoke.h"
#include "tests/support/files.h"
#include "tests/support/mpirun.h"
#include "tests/support/temp_folder.h"
#include "tests/support/two_hosts.h"
#include "yoke/cli/link_survey.h"
#include "yoke/comm/join.h"
#include "yoke/profile/jabas/profile_files.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using profile::CommProfile;
using profile::LinkOp;
using profile::LinkScope;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using yoke::testing::Process;
using yoke::testing::TempFolder;

/// Small and quick, for all tests.
std::vector<std::string> quick(std::vector<std::string> words, const std::string& out) {
  words.insert(words.begin(), {"profile", "comm"});
  words.insert(words.end(), {"--sizes", "4KiB,64KiB,256KiB", "--budget", "400ms", "--out", out, "--json"});
  return words;
}

CommProfile load(const std::string& folder) {
  const auto comm = profile::load_comm(folder);
  EXPECT_TRUE(comm.ok()) << comm.error().to_string();
  return comm.ok() ? *comm : CommProfile{};
}

std::vector<std::string> backends(const CommProfile& comm, LinkScope scope, LinkOp op) {
  std::vector<std::string> names;
  for (const auto& link : comm.links) {
    if (link.scope == scope && link.op == op) names.push_back(link.backend);
  }
  return names;
}

bool has_gloo() {
  for (const auto& info : comm::list_backends()) {
    if (info.name == "gloo") return info.available;
  }
  return false;
}

TEST(ProfileComm, ThreadsGiveAllThatTheFileHolds) {
  const TempFolder folder;
  const Outcome outcome =
      yoke(quick({"--backends", "local", "--devices", "3", "--intra-bandwidth", "10GB/s"}, folder.path()));
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const CommProfile comm = load(folder.path());
  ASSERT_EQ(comm.links.size(), 2U);
  EXPECT_EQ(comm.links[0].op, LinkOp::kAllReduce);
  EXPECT_EQ(comm.links[0].ranks, 3);
  EXPECT_EQ(comm.links[1].op, LinkOp::kMessage);
  EXPECT_EQ(comm.links[1].ranks, 2);
  EXPECT_EQ(comm.intra_bandwidth->bytes_per_s, 10e9);
  EXPECT_TRUE(comm.inter.empty());
  ASSERT_GE(comm.intra.size(), 2U);
  for (std::size_t i = 0; i < comm.intra.size(); ++i) {
    const auto& point = comm.intra[i];
    EXPECT_DOUBLE_EQ(point.ideal_ms, 4.0 * 2 / 3 * static_cast<double>(*point.bytes) / 10e9 * 1000);
    EXPECT_EQ(point.measured_ms, comm.links[0].points[i].median_ms);
    EXPECT_EQ(point.spread_ms, comm.links[0].points[i].spread_ms);
  }
  const std::string text = folder.file("comm_profile_data/intra_comm_profile_data.txt");
  const auto jabas = profile::jabas::parse_comm_file(yoke::testing::read_text(text), text);
  ASSERT_TRUE(jabas.ok()) << jabas.error().to_string();
  ASSERT_EQ(jabas->size(), comm.intra.size());
  EXPECT_EQ(jabas->front().measured_ms, comm.intra.front().measured_ms);
  base::Document document = last_json(outcome.out);
  base::Reader reader(document);
  EXPECT_EQ(reader.root().field("links").items().size(), 2U);
  EXPECT_EQ(reader.root().field("files").items().size(), 2U);
}

TEST(ProfileComm, ProcessesOfAnEmulatedClusterHaveBothKindsOfLinks) {
  const TempFolder folder;
  const std::string cluster = folder.write("cluster.yaml",
                                           "nodes:\n- {name: alone, inter_bandwidth: 1GB/s}\n"
                                           "- {name: both, devices: 2, intra_bandwidth: 2GB/s}\n");
  Process process(program(quick({"--cluster", cluster}, folder.file("out"))));
  finish(process);
  const CommProfile comm = load(folder.file("out"));
  const auto expected = has_gloo() ? std::vector<std::string>{"shm", "gloo"} : std::vector<std::string>{"shm"};
  for (const auto scope : {LinkScope::kIntra, LinkScope::kInter}) {
    for (const auto op : {LinkOp::kAllReduce, LinkOp::kMessage}) EXPECT_EQ(backends(comm, scope, op), expected);
  }
  EXPECT_EQ(comm.links.front().ranks, 2) << "the node with two devices";
  EXPECT_EQ(comm.intra_bandwidth->bytes_per_s, 2e9);
  EXPECT_EQ(comm.inter_bandwidth->bytes_per_s, 1e9);
  for (const auto& link : comm.links) {
    const bool named = link.scope == LinkScope::kInter && link.op == LinkOp::kMessage;
    EXPECT_EQ(link.between, named ? (std::vector<std::string>{"alone", "both"}) : std::vector<std::string>{});
  }
  EXPECT_FALSE(comm.inter.empty());
}

TEST(ProfileComm, WhatWasNotMeasuredNowStays) {
  const TempFolder folder;
  CommProfile old{.intra = {{1, 2}}, .inter = {{3, 4}}, .inter_bandwidth = base::Bandwidth{5}};
  old.links = {{.scope = LinkScope::kIntra, .backend = "old", .bandwidth = {1}},
               {.scope = LinkScope::kInter, .backend = "old", .bandwidth = {1}}};
  ASSERT_TRUE(profile::save_comm(folder.path(), old).ok());
  ASSERT_EQ(yoke(quick({"--backends", "local"}, folder.path())).code, 0);
  const CommProfile comm = load(folder.path());
  EXPECT_EQ(comm.inter, old.inter);
  EXPECT_EQ(comm.inter_bandwidth, old.inter_bandwidth);
  EXPECT_EQ(backends(comm, LinkScope::kInter, LinkOp::kAllReduce), std::vector<std::string>{"old"});
  EXPECT_EQ(backends(comm, LinkScope::kIntra, LinkOp::kAllReduce), std::vector<std::string>{"local"});
  EXPECT_NE(comm.intra, old.intra);
}

TEST(ProfileComm, BadInputNamesTheOption) {
  const TempFolder folder;
  const auto expect = [&](const std::vector<std::string>& words, const std::string& message) {
    const Outcome outcome = yoke(quick(words, folder.file("out")));
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_THAT(outcome.out, HasSubstr(message));
    EXPECT_FALSE(std::filesystem::exists(folder.file("out/comm.json")));
  };
  expect({"--launcher", "mpii"}, "found `mpii`, expected local, mpi or hosts, did you mean `mpi`?");
  expect({"--devices", "1"}, "found one device, expected at least two");
  expect({"--devices", "0"}, "found 0, expected 1 to 256");
  expect({"--devices", "2,2"}, "expected one: there is one host");
  expect({"--backends", "shn"}, "found `shn`, expected auto, shm, gloo or local here, did you mean `shm`?");
  expect({"--backends", "local,shm"}, "alone: its ranks are threads");
  expect({"--intra-bandwidth", "fast"}, "--intra-bandwidth");
  expect({"--hosts", "a,b"}, "expected --launcher hosts");
  expect({"--launcher", "hosts"}, "--hosts");
  expect({"--launcher", "hosts", "--hosts", "a"}, "found 1, expected at least two");
  expect({"--launcher", "hosts", "--hosts", "127.0.0.1,127.0.0.1"},
         "2 of the hosts 127.0.0.1 and 127.0.0.1 are this machine");
  expect({"--launcher", "hosts", "--hosts", "a,b", "--rank", "2"}, "found 2, expected 0 to 1");
  expect({"--launcher", "hosts", "--hosts", "a,b", "--rank", "0", "--devices", "1,2,3"}, "one for each of 2 hosts");
  expect({"--launcher", "mpi"}, "RANK");
  expect({"--cluster", folder.write("far.yaml", "nodes:\n- {name: far, address: 192.0.2.1}\n")},
         "found nodes on other hosts (far)");
  const auto plain = [&](const std::vector<std::string>& words, const std::string& message) {
    std::vector<std::string> all{"profile", "comm", "--out", folder.file("out")};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = yoke(all);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_THAT(outcome.err, StartsWith("yoke: error: " + message));
  };
  plain({"--sizes", "3,4096"}, "--sizes: found `3`, expected a multiple of 4");
  plain({"--sizes", "4096"}, "--sizes: found one size, expected at least two");
  plain({"--budget", "0"}, "--budget: found 0, expected a time > 0");
  plain({"--budget", "soon"}, "--budget: ");
}

TEST(ProfileComm, AFolderThatCannotTakeTheResultIsFoundOutFirst) {
  const TempFolder folder;
  folder.write("file", "");
  const Outcome in_the_way = yoke({"profile", "comm", "--out", folder.file("file")});
  EXPECT_EQ(in_the_way.code, 2);
  EXPECT_THAT(in_the_way.err, HasSubstr("cannot make the folder"));
  folder.write("broken/comm.json", "{");
  EXPECT_THAT(yoke({"profile", "comm", "--out", folder.file("broken")}).err, HasSubstr("comm.json"));
  const Outcome read_only = yoke({"profile", "comm", "--out", "/proc/self"});
  EXPECT_EQ(read_only.code, 2);
  EXPECT_THAT(read_only.err, HasSubstr("/proc/self/comm.json: cannot write here"));
}

TEST(ProfileComm, StoppedItLeavesNothing) {
  const TempFolder folder;
  Process process(program({"profile", "comm", "--budget", "60s", "--out", folder.file("out")}));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  ::kill(process.pid(), SIGINT);
  finish(process, 130);
  EXPECT_FALSE(std::filesystem::exists(folder.file("out/comm.json")));
}

TEST(ProfileComm, HostsMeasureTogetherAndAllGetTheResult) {
  if (!has_gloo()) GTEST_SKIP() << "gloo is not in this build";
  const TempFolder folder;
  const std::string port = free_port();
  std::vector<Process> hosts;
  for (const char* rank : {"0", "1"}) {
    hosts.emplace_back(program(quick(
        {"--launcher", "hosts", "--hosts", "127.0.0.1,127.0.0.1", "--rank", rank, "--port", port, "--devices", "2,1"},
        folder.file(rank))));
  }
  for (auto& host : hosts) finish(host);
  const CommProfile comm = load(folder.file("0"));
  EXPECT_EQ(comm, load(folder.file("1")));
  EXPECT_EQ(backends(comm, LinkScope::kIntra, LinkOp::kAllReduce), (std::vector<std::string>{"shm", "gloo"}));
  EXPECT_EQ(backends(comm, LinkScope::kInter, LinkOp::kAllReduce), (std::vector<std::string>{"hierarchical", "gloo"}));
  for (const auto& link : comm.links) {
    if (link.scope == LinkScope::kInter && link.op == LinkOp::kAllReduce) {
      EXPECT_EQ(link.ranks, 3);
    }
  }
}

TEST(ProfileComm, AHostThatDoesNotComeIsNamed) {
  const TempFolder folder;
  const auto alone = [&](const char* rank, const std::string& hosts) {
    return program(
        quick({"--launcher", "hosts", "--hosts", hosts, "--rank", rank, "--port", free_port(), "--timeout", "400ms"},
              folder.file(rank)));
  };
  Process first(alone("0", "127.0.0.1,far.example"));
  EXPECT_THAT(finish(first, 4), HasSubstr("host far.example (rank 1) did not answer within 400.0 ms"));
  Process second(alone("1", "127.0.0.1,127.0.0.2"));
  EXPECT_THAT(finish(second, 4), AllOf(HasSubstr("host 127.0.0.1 is not reached"), HasSubstr("Connection refused")));
  Process nameless(alone("1", "nowhere.invalid,127.0.0.2"));
  EXPECT_THAT(finish(nameless, 4), HasSubstr("host nowhere.invalid is not reached"));
}

TEST(ProfileComm, APortThatIsTakenIsNamed) {
  const TempFolder folder;
  const auto taken = comm::TcpStoreServer::start("127.0.0.1");
  Process process(program(quick(
      {"--launcher", "hosts", "--hosts", "127.0.0.1,b", "--rank", "0", "--port", std::to_string((*taken)->port())},
      folder.path())));
  EXPECT_THAT(finish(process, 2), AllOf(HasSubstr("--port"), HasSubstr("Address already in use")));
}

TEST(ProfileComm, HostsOfTheirOwnNetworks) {
  if (!has_gloo()) GTEST_SKIP() << "gloo is not in this build";
  const yoke::testing::TwoHosts two;
  if (!two.works()) GTEST_SKIP() << "needs iproute2 and the right to make network namespaces";
  const TempFolder folder;
  std::vector<Process> hosts;
  for (const char host : {'a', 'b'}) {
    // Which one it is shows in its addresses.
    hosts.push_back(two.start(host, program(quick({"--launcher", "hosts", "--hosts", "10.77.0.1,10.77.0.2"},
                                                  folder.file(std::string(1, host))))));
  }
  for (auto& host : hosts) finish(host);
  const CommProfile comm = load(folder.file("a"));
  EXPECT_EQ(comm, load(folder.file("b")));
  EXPECT_EQ(backends(comm, LinkScope::kInter, LinkOp::kMessage), std::vector<std::string>{"gloo"});
  EXPECT_TRUE(comm.intra.empty());
}

TEST(ProfileComm, UnderMpirun) {
  const bool has_mpi = std::ranges::any_of(
      comm::list_backends(), [](const comm::BackendInfo& info) { return info.name == "mpi" && info.available; });
  if (!has_mpi) GTEST_SKIP() << "mpi is not in this build";
  const TempFolder folder;
  std::vector<std::string> command{"mpirun", "--oversubscribe", "-n", "2"};
  for (const auto& word : program(quick({"--launcher", "mpi"}, folder.path()))) command.push_back(word);
  Process process(command, yoke::testing::mpirun_environment(folder.path()));
  ASSERT_TRUE(process.wait(std::chrono::seconds(60))) << process.output();
  if (process.exit_code() == 127) GTEST_SKIP() << "mpirun is not installed";
  ASSERT_EQ(process.exit_code(), 0) << process.output();
  const auto names = backends(load(folder.path()), LinkScope::kIntra, LinkOp::kAllReduce);
  EXPECT_EQ(names.front(), "shm");
  EXPECT_EQ(names.back(), "mpi");
}

TEST(LinkSurvey, TheSetupSurvivesTheStore) {
  const auto store = comm::make_memory_store();
  const base::SystemClock clock;
  const auto deadline = base::Deadline::in(std::chrono::seconds(5), clock);
  const SurveySetup setup{.hosts = {"a", "a", "b#1"},
                          .emulated = true,
                          .backends = {"auto", "gloo"},
                          .sizes = {4, 104'857'600},
                          .budget = std::chrono::milliseconds(1500),
                          .intra_bandwidth = base::Bandwidth{1.0 / 3}};
  ASSERT_TRUE(share_survey(*store, setup, deadline).ok());
  const auto again = receive_survey(*store, deadline);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(*again, setup);
  SurveySetup endless = setup;
  endless.budget = base::Duration::max();  // twice that is no time any more
  yoke::testing::expect_input_error(parse_survey(to_json(endless).dump()), "budget_ns");
}

}  // namespace
}  // namespace yoke::cli
