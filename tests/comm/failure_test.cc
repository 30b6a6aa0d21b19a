// A rank that is killed, stopped or cut off in the middle of any op: the others say who, and soon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <optional>

#include "tests/comm/ranks.h"
#include "tests/support/paths.h"

namespace yoke::comm::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const char* const kOps[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier", "message", "threads"};

class Failure : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  /// The reports of all but rank 1, to which the act happens.
  std::vector<std::string> survivors(const std::string& act, const std::string& op) {
    // Only who is stopped is found out by waiting: all else must be known long before the deadline.
    const auto patience = act == "stop" ? std::chrono::milliseconds(1500) : std::chrono::milliseconds(40'000);
    const Scenario scenario{.name = "loop", .op = op, .victim = 1, .act = act, .patience = patience};
    auto outcomes = play_in_processes(std::get<0>(GetParam()), scenario, 4, std::chrono::seconds(60));
    outcomes.erase(outcomes.begin() + 1);
    return outcomes;
  }
};

TEST_P(Failure, IsReportedByNameInTime) {
  const auto [backend, act] = GetParam();
  if (!has_backend(backend)) GTEST_SKIP() << backend << " is not in this build";
  for (const char* op : kOps) {
    for (const auto& report : survivors(act, op)) {
      EXPECT_THAT(report, AllOf(HasSubstr("failed after"), HasSubstr("ranks 1:"), HasSubstr("rank 1 (")))
          << act << " in " << op;
      // Seconds at most; the rest is what a busy machine adds.
      EXPECT_LT(seconds_of(report), 20) << act << " in " << op << ": " << report;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Comm, Failure,
                         ::testing::Combine(::testing::Values("shm", "gloo", "hierarchical"),
                                            ::testing::Values("kill", "stop", "disconnect")),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)) + "_" + std::get<1>(param.param);
                         });

TEST(Failure, ABusyRankIsNamedThoughOthersAreWaitedFor) {
  // 3 waits for 2 and 2 for 1; so does 0, whose message another thread waits for. 1 computes: what it waits for ahead
  // of need holds up nobody.
  const base::SystemClock clock;
  auto store = make_memory_store();
  std::vector<std::jthread> threads;
  for (const int rank : {0, 1, 2, 3}) {
    threads.emplace_back([&, rank] {
      const auto soon = base::Deadline::in(std::chrono::seconds(20), clock);
      auto own = store->another(soon);
      auto group = join({.name = "test", .rank = rank, .size = 4, .backend = "local"}, **own, soon, clock).value();
      ASSERT_TRUE(group->run(barrier(), soon).ok());
      std::array<std::byte, 8> data{};
      const int from = std::array{1, 2, 1, 2}.at(static_cast<std::size_t>(rank));
      std::optional<Waiting> waiting;
      if (rank == 0) waiting.emplace(*group, from);
      auto message = group->launch(receive(data.data(), data.size(), DType::kU8, from),
                                   base::Deadline::in(std::chrono::milliseconds(500), clock));
      const auto status = rank < 2 ? message.wait_ahead() : message.wait();
      ASSERT_FALSE(status.ok());
      EXPECT_THAT(group->failure()->ranks, ::testing::ElementsAre(1)) << status.error().to_string();
      EXPECT_THAT(status.error().to_string(), AllOf(HasSubstr("rank 1 ("), HasSubstr("kept rank")));
    });
  }
}

TEST(Failure, TheStoreOfRankZeroDies) {
  using yoke::testing::Process;
  const auto command = [](int rank, const std::string& store) {
    return std::vector<std::string>{yoke::testing::program("yoke_comm_rank"),
                                    "backend=shm",
                                    fmt::format("rank={}", rank),
                                    "size=2",
                                    "store=" + store,
                                    "scenario=loop",
                                    "op=all_reduce",
                                    "victim=0",
                                    "act=kill"};
  };
  Process first(command(0, ""));
  std::string address = first.read_line(std::chrono::seconds(20));
  address = address.substr(0, address.find('\n'));
  Process second(command(1, address));
  ASSERT_TRUE(second.wait(std::chrono::seconds(60)));
  EXPECT_THAT(second.output(), AllOf(HasSubstr("ranks 0:"), HasSubstr("serves the store and was lost")));
}

TEST(Failure, ASegmentOfACrashedRunIsRemoved) {
  // A maker that no longer lives: this child has ended by the time its segment is found.
  struct Dead {
    pid_t pid = ::fork();
    Dead() {
      if (pid == 0) ::_exit(0);
      ::waitpid(pid, nullptr, 0);
    }
  } const dead;
  const auto pid_namespace = std::filesystem::read_symlink("/proc/self/ns/pid").string();  // pid:[4026531836]
  const auto number = std::stoull(pid_namespace.substr(pid_namespace.find('[') + 1));
  const std::string stale = fmt::format("/dev/shm/yoke-{:x}-{}-0badcafe", number, dead.pid);
  const std::string foreign = fmt::format("/dev/shm/yoke-{:x}-{}-0badcafe", number, ::getpid());
  ASSERT_EQ(::close(::open(stale.c_str(), O_CREAT | O_RDWR, 0600)), 0);
  ASSERT_EQ(::close(::open(foreign.c_str(), O_CREAT | O_RDWR, 0600)), 0);
  const auto outcomes = play_in_processes("shm", {.name = "leave", .victim = 1}, 2);
  EXPECT_EQ(outcomes[1], "ok");
  EXPECT_FALSE(std::filesystem::exists(stale));
  EXPECT_TRUE(std::filesystem::exists(foreign)) << "its maker lives";
  std::filesystem::remove(foreign);
}

TEST(Failure, NothingStaysBehind) {
  const auto segments = [] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      count += entry.path().filename().string().starts_with("yoke-") ? 1 : 0;
    }
    return count;
  };
  const int before = segments();
  for (const char* backend : {"shm", "hierarchical"}) {
    if (!has_backend(backend)) continue;
    for (const char* act : {"kill", "abort"}) {
      play_in_processes(backend, {.name = "loop", .op = "all_reduce", .victim = 0, .act = act}, 4);
    }
  }
  EXPECT_LE(segments(), before);
}

}  // namespace
}  // namespace yoke::comm::testing
