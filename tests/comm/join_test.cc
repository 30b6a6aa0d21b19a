// Rendezvous and what can go wrong there, on threads; and that a group leaves nothing behind.
#include "yoke/comm/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/comm/ranks.h"
#include "yoke/comm/decorate/by_place.h"
#include "yoke/comm/decorate/faulty.h"
#include "yoke/comm/decorate/shaped.h"

namespace yoke::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

const base::SystemClock kClock;
base::Deadline in(base::Duration time) {
  return base::Deadline::in(time, kClock);
}

using Joined = std::vector<base::Result<std::unique_ptr<Group>>>;

/// All ranks join at once, each as it wants.
Joined join_all(const std::vector<JoinOptions>& ranks, Store& store, base::Duration patience = seconds(10)) {
  std::vector<std::optional<base::Result<std::unique_ptr<Group>>>> joined(ranks.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] {
        auto own = store.another(in(seconds(5)));  // ranks wait for each other, so none shares a client
        joined[i] = join(ranks[i], **own, in(patience), kClock);
      });
    }
  }
  Joined result;
  for (auto& one : joined) result.push_back(*std::move(one));
  return result;
}

std::vector<JoinOptions> like(const JoinOptions& options, int size) {
  std::vector<JoinOptions> ranks(static_cast<std::size_t>(size), options);
  for (int rank = 0; rank < size; ++rank) {
    ranks[static_cast<std::size_t>(rank)].rank = rank;
    ranks[static_cast<std::size_t>(rank)].size = size;
  }
  return ranks;
}

TEST(Join, SaysWhatIsWrongWithTheRequest) {
  const auto store = make_memory_store();
  const auto problem = [&](const JoinOptions& options) {
    const auto joined = join(options, *store, in(milliseconds(10)), kClock);
    EXPECT_FALSE(joined.ok());
    EXPECT_EQ(joined.error().kind, base::ErrorKind::kInput);
    return joined.error().message;
  };
  EXPECT_THAT(problem({.name = "g", .size = 0}), HasSubstr("a group of 0 ranks; expected at least one"));
  EXPECT_THAT(problem({.name = "g", .rank = 2, .size = 2}), HasSubstr("rank 2 in a group of 2; expected 0 to 1"));
  EXPECT_THAT(problem({.name = "g", .rank = -1, .size = 2}), HasSubstr("rank -1"));
  EXPECT_THAT(problem({.name = ""}), HasSubstr("without a name"));
  EXPECT_THAT(problem({.name = "g", .backend = "glo"}), AllOf(HasSubstr("`glo`"), HasSubstr("did you mean `gloo`?")));
}

TEST(Join, NamesWhoDidNotCome) {
  const auto store = make_memory_store();
  const auto joined =
      join({.name = "g", .rank = 1, .size = 4, .backend = "local"}, *store, in(milliseconds(50)), kClock);
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.error().kind, base::ErrorKind::kPeer);
  EXPECT_THAT(joined.error().message, HasSubstr("rank 0, rank 2 and rank 3 of 4 did not join group `g`"));
}

TEST(Join, ANameIsGoodForOneGroup) {
  const auto store = make_memory_store();
  auto first = join_all(like({.name = "g", .backend = "local"}, 2), *store);
  ASSERT_TRUE(first[0].ok() && first[1].ok());
  const auto second = join({.name = "g", .rank = 1, .size = 2, .backend = "local"}, *store, in(seconds(1)), kClock);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr("rank 1 of group `g` joins for the 2. time"));
}

TEST(Join, UnlikeSizesAndBackendsAreNamed) {
  const auto store = make_memory_store();
  auto ranks = like({.name = "sizes", .backend = "local"}, 2);
  ranks[1].size = 3;
  for (const auto& one : join_all(ranks, *store, milliseconds(200))) {
    ASSERT_FALSE(one.ok());
    EXPECT_THAT(one.error().message, HasSubstr("as one of 3"));
  }
  ranks = like({.name = "backends", .backend = "local"}, 2);
  ranks[1].backend = "shm";
  for (const auto& one : join_all(ranks, *store, milliseconds(200))) {
    ASSERT_FALSE(one.ok());
    EXPECT_THAT(one.error().message, AllOf(HasSubstr("on shm"), HasSubstr("expected the same on all ranks")));
  }
}

TEST(Join, ChoosesByWhoSharesMemory) {
  const auto store = make_memory_store();
  const auto chosen = [&](const std::string& name, const std::vector<std::string>& hosts) {
    auto ranks = like({.name = name}, static_cast<int>(hosts.size()));
    for (std::size_t i = 0; i < hosts.size(); ++i) ranks[i].host = hosts[i];
    const auto groups = join_all(ranks, *store);
    return groups[0].ok() ? std::string((*groups[0])->backend()) : groups[0].error().message;
  };
  EXPECT_EQ(chosen("one", {"a", "a"}), "shm");
  if (testing::has_backend("gloo")) {
    EXPECT_EQ(chosen("two", {"a", "b"}), "gloo");
    EXPECT_EQ(chosen("both", {"a", "b", "a"}), "hierarchical");
  }
}

TEST(Group, RefusesOpsThatMakeNoSense) {
  const auto store = make_memory_store();
  const auto groups = join_all(like({.name = "g", .backend = "local"}, 2), *store);
  Group& group = **groups[0];
  float data[2] = {};
  for (const Op& op : {send(std::span<const float>(data), 0), receive(std::span(data), 2),
                       broadcast(std::span(data), -1), all_reduce(nullptr, 3, DType::kF32)}) {
    const auto status = group.run(op, in(seconds(1)));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, base::ErrorKind::kInput) << status.error().message;
  }
  EXPECT_FALSE(group.failure().has_value()) << "the group is as good as before";
}

int count_entries(const char* folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

TEST(Group, LeavesNoThreadAndNoDescriptor) {
  for (const char* backend : {"local", "shm", "gloo", "hierarchical"}) {
    if (!testing::has_backend(backend)) continue;
    const auto play = [&](const std::string& name, bool fail) {
      auto server = TcpStoreServer::start("127.0.0.1");
      auto store = connect_tcp_store("127.0.0.1:" + std::to_string((*server)->port()), in(seconds(5)), kClock);
      auto ranks = like({.name = name, .backend = backend}, 3);
      for (auto& one : ranks) one.host = testing::host_of(backend, one.rank);
      const auto groups = join_all(ranks, **store);
      std::vector<std::jthread> threads;
      for (const auto& group : groups) {
        ASSERT_TRUE(group.ok()) << group.error().message;
        threads.emplace_back([&] {
          std::vector<float> data(100'000);
          auto handle = (*group)->launch(all_reduce(std::span(data)), in(seconds(10)));
          EXPECT_TRUE(handle.wait().ok() || fail) << "rank 1 may abort while others still finish";
          if (fail && (*group)->rank() == 1) (*group)->abort("on purpose");
          if (fail) {
            EXPECT_FALSE((*group)->run(barrier(), in(seconds(10))).ok());
          }
        });
      }
    };
    play("warm-up", false);
    const int descriptors = count_entries("/proc/self/fd");
    const int threads = count_entries("/proc/self/task");
    play("good", false);
    play("bad", true);
    EXPECT_EQ(count_entries("/proc/self/fd"), descriptors) << backend;
    EXPECT_EQ(count_entries("/proc/self/task"), threads) << backend;
  }
}

/// Runs something in a child process with a /dev/shm of its own of the given size; nullopt without the right to.
std::optional<int> with_small_shm(const char* size, int (*body)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", "/dev/shm", "tmpfs", 0, size) != 0) {
      ::_exit(99);
    }
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code == 99 ? std::nullopt : std::optional(code);
}

TEST(Join, AFullSharedMemoryIsAnErrorNotACrash) {
  const auto code = with_small_shm("size=1m", [] {
    const auto store = make_memory_store();
    const auto joined = join_all(like({.name = "g", .backend = "shm"}, 2), *store);
    for (const auto& one : joined) {
      if (one.ok() || one.error().message.find("cannot reserve") == std::string::npos ||
          one.error().message.find("--shm-size") == std::string::npos) {
        return 1;
      }
    }
    return 0;
  });
  if (!code) GTEST_SKIP() << "needs the right to mount a small /dev/shm";
  EXPECT_EQ(*code, 0);
}

/// Stands for the memory of a GPU, which is not here: notes what it is asked for.
class NotedBackend final : public Backend {
 public:
  explicit NotedBackend(std::vector<OpKind>& asked) : asked_(asked) {}
  std::string_view name() const override { return "noted"; }
  Outcome run(const Op& op, std::uint64_t, const Call&) override {
    asked_.push_back(op.kind);
    return std::nullopt;
  }
  std::unique_ptr<Transfer> start(const Op&) override { return nullptr; }
  void interrupt() override {}

 private:
  std::vector<OpKind>& asked_;
};

TEST(ByPlace, OpsGoWhereTheirMemoryIs) {
  const auto store = make_memory_store();
  std::vector<OpKind> asked;
  auto ranks = like({.name = "g", .backend = "local"}, 1);
  EXPECT_FALSE((*join_all(ranks, *store).front())->takes_device_memory());
  ranks.front().name = "placed";
  ranks.front().decorate = [&](std::unique_ptr<Backend> inner) {
    return make_backend_by_place(std::move(inner), std::make_unique<NotedBackend>(asked));
  };
  const auto groups = join_all(ranks, *store);
  Group& group = **groups.front();
  EXPECT_TRUE(group.takes_device_memory());
  EXPECT_EQ(group.backend(), "noted");
  std::vector<std::byte> data(8);
  Op op = all_reduce(data.data(), data.size(), DType::kU8);
  EXPECT_TRUE(group.run(op, in(seconds(10))).ok());
  EXPECT_TRUE(group.run(barrier(), in(seconds(10))).ok());
  EXPECT_TRUE(asked.empty()) << "memory of the host";
  op.on_device = true;
  EXPECT_TRUE(group.run(op, in(seconds(10))).ok());
  EXPECT_EQ(asked, std::vector{OpKind::kAllReduce});
}

TEST(Shaped, OpsTakeAtLeastWhatTheLinkNeeds) {
  const LinkShape shape{.latency = milliseconds(2), .bytes_per_second = 50e6};
  const auto store = make_memory_store();
  auto ranks = like({.name = "g", .backend = "local"}, 2);
  for (auto& one : ranks) {
    one.decorate = [&](std::unique_ptr<Backend> inner) {
      return make_shaped_backend(std::move(inner), 2, shape, kClock);
    };
  }
  const auto groups = join_all(ranks, *store);
  std::vector<std::jthread> threads;
  for (const auto& group : groups) {
    threads.emplace_back([&] {
      std::vector<std::byte> data(1'000'000);
      auto begin = kClock.now();
      EXPECT_TRUE((*group)->run(all_reduce(data.data(), data.size(), DType::kU8), in(seconds(10))).ok());
      // Twice half of it at 50 MB/s, and two latencies.
      EXPECT_GE(base::to_seconds(kClock.now() - begin), 0.024);
      begin = kClock.now();
      const int other = 1 - (*group)->rank();
      if ((*group)->rank() == 0) {
        auto first = (*group)->launch(send(data.data(), data.size(), DType::kU8, other), in(seconds(10)));
        auto second = (*group)->launch(send(data.data(), data.size(), DType::kU8, other), in(seconds(10)));
        EXPECT_TRUE(first.wait().ok() && second.wait().ok());
      } else {
        for (int i = 0; i < 2; ++i) {
          EXPECT_TRUE((*group)->run(receive(data.data(), data.size(), DType::kU8, other), in(seconds(10))).ok());
        }
      }
      EXPECT_GE(base::to_seconds(kClock.now() - begin), 0.040) << "one after the other";
    });
  }
}

TEST(Faulty, ADroppedCallIsMissedByName) {
  const auto store = make_memory_store();
  auto ranks = like({.name = "g", .backend = "local"}, 3);
  ranks[2].decorate = [](std::unique_ptr<Backend> inner) {
    return make_faulty_backend(std::move(inner), {.kind = Fault::Kind::kDrop, .at_call = 2});
  };
  const auto groups = join_all(ranks, *store);
  std::vector<std::jthread> threads;
  for (const auto& group : groups) {
    threads.emplace_back([&] {
      EXPECT_TRUE((*group)->run(barrier(), in(seconds(10))).ok());
      EXPECT_FALSE((*group)->run(barrier(), in(milliseconds(200))).ok());
    });
  }
}

TEST(Faulty, ADelayedCallIsOnlyLate) {
  const auto store = make_memory_store();
  auto ranks = like({.name = "g", .backend = "local"}, 2);
  ranks[1].decorate = [](std::unique_ptr<Backend> inner) {
    return make_faulty_backend(std::move(inner),
                               {.kind = Fault::Kind::kDelay, .at_call = 1, .delay = milliseconds(80)});
  };
  const auto groups = join_all(ranks, *store);
  const auto begin = kClock.now();
  {
    std::vector<std::jthread> threads;
    for (const auto& group : groups) {
      threads.emplace_back([&] { EXPECT_TRUE((*group)->run(barrier(), in(seconds(10))).ok()); });
    }
  }
  EXPECT_GE(base::to_seconds(kClock.now() - begin), 0.08);
}

}  // namespace
}  // namespace yoke::comm
