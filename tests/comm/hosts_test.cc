// Two hosts, as network namespaces joined by a virtual cable: the way through real interfaces, and a cable that is cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/ranks.h"
#include "tests/support/paths.h"
#include "tests/support/two_hosts.h"

namespace yoke::comm::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using yoke::testing::Process;
using yoke::testing::TwoHosts;

class Hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_backend("gloo")) GTEST_SKIP() << "gloo is not in this build";
    if (!hosts_.works()) GTEST_SKIP() << "needs iproute2 and the right to make network namespaces";
  }

  /// `size` ranks dealt to the two hosts in turn; rank 0 serves the store on host a.
  std::vector<Process> start(const std::string& backend, int size, const Scenario& scenario) {
    std::vector<Process> ranks;
    std::string store;
    for (int rank = 0; rank < size; ++rank) {
      std::vector<std::string> words{
          "backend=" + backend, fmt::format("rank={}", rank),     fmt::format("size={}", size), "store=" + store,
          "serve=10.77.0.1",    fmt::format("host=h{}", rank % 2)};
      for (const auto& word : words_of(scenario)) words.push_back(word);
      words.insert(words.begin(), yoke::testing::program("yoke_comm_rank"));
      ranks.push_back(hosts_.start(rank % 2 == 0 ? 'a' : 'b', words));
      if (rank > 0) continue;
      store = ranks[0].read_line(std::chrono::seconds(20));
      store = store.substr(0, store.find('\n'));
    }
    return ranks;
  }

  TwoHosts hosts_;
};

TEST_F(Hosts, TheContractHoldsAcrossThem) {
  for (const auto& [backend, size] : {std::pair{"gloo", 2}, {"hierarchical", 4}, {"auto", 3}}) {
    auto ranks = start(backend, size, {.name = "contract", .patience = std::chrono::seconds(60)});
    for (auto& rank : ranks) {
      ASSERT_TRUE(rank.wait(std::chrono::seconds(240))) << backend << ": " << rank.output();
      EXPECT_EQ(last_line(rank.output()), "ok") << backend;
    }
  }
}

TEST_F(Hosts, ACutCableIsNoticedLongBeforeTheDeadline) {
  auto ranks = start("gloo", 2, {.name = "loop", .op = "all_reduce", .patience = std::chrono::seconds(50)});
  std::this_thread::sleep_for(std::chrono::seconds(1));
  hosts_.cut_the_cable();
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(ranks[i].wait(std::chrono::seconds(100)));
    const std::string report = last_line(ranks[i].output());
    EXPECT_THAT(report, AllOf(HasSubstr("failed after"), HasSubstr(fmt::format("ranks {}:", 1 - i))));
    EXPECT_LT(seconds_of(report), 40) << report;
  }
}

}  // namespace
}  // namespace yoke::comm::testing
