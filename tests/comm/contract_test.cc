// One suite for every backend: what a group promises, whoever moves the bytes. See scenario.cc for what ranks do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/ranks.h"

namespace yoke::comm::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

const char* const kBackends[] = {"local", "shm", "gloo", "hierarchical"};

#define SKIP_WITHOUT(backend) \
  if (!has_backend(backend)) GTEST_SKIP() << backend << " is not in this build"

class Contract : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Contract, HoldsForEveryOpSizeAndType) {
  const auto [backend, size] = GetParam();
  SKIP_WITHOUT(backend);
  const Scenario scenario{.name = "contract", .patience = std::chrono::seconds(60)};
  EXPECT_THAT(play_anywhere(backend, scenario, size), Each("ok"));
}

INSTANTIATE_TEST_SUITE_P(Comm, Contract,
                         ::testing::Combine(::testing::ValuesIn(kBackends), ::testing::Values(1, 2, 3, 4, 7)),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)) + std::to_string(std::get<1>(param.param));
                         });

class Subgroups : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Subgroups, ComputeBesideTheWholeGroupAndItsMessages) {
  const auto [backend, size] = GetParam();
  SKIP_WITHOUT(backend);
  EXPECT_THAT(play_anywhere(backend, {.name = "subgroups", .patience = std::chrono::seconds(60)}, size), Each("ok"));
}

INSTANTIATE_TEST_SUITE_P(Comm, Subgroups, ::testing::Combine(::testing::ValuesIn(kBackends), ::testing::Values(2, 5)),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)) + std::to_string(std::get<1>(param.param));
                         });

class Misuse : public ::testing::TestWithParam<const char*> {};

TEST_P(Misuse, DisagreementIsNamedNotComputed) {
  SKIP_WITHOUT(GetParam());
  for (const char* what : {"count", "small count", "dtype", "kind", "root", "message"}) {
    const Scenario scenario{.name = "mismatch", .victim = 1, .act = what, .patience = std::chrono::seconds(40)};
    const auto outcomes = play_anywhere(GetParam(), scenario, 3);
    EXPECT_THAT(outcomes,
                Each(AllOf(HasSubstr("failed after"), HasSubstr("disagree"), HasSubstr("rank 1"), HasSubstr("called"))))
        << what;
    for (const auto& outcome : outcomes)
      EXPECT_LT(seconds_of(outcome), 30) << "found out, not waited for: " << what << ": " << outcome;
  }
}

TEST_P(Misuse, AbortEndsEveryWaitAndGivesTheReason) {
  SKIP_WITHOUT(GetParam());
  const Scenario scenario{.name = "loop", .op = "all_reduce", .victim = 1, .act = "abort"};
  EXPECT_THAT(play_anywhere(GetParam(), scenario, 3),
              Each(AllOf(HasSubstr("failed after"), HasSubstr("ranks 1:"), HasSubstr("aborted: a test wants it"))));
}

TEST_P(Misuse, WhoHasLeftIsNotWaitedFor) {
  SKIP_WITHOUT(GetParam());
  const auto outcomes =
      play_anywhere(GetParam(), {.name = "leave", .victim = 2, .patience = std::chrono::seconds(40)}, 3);
  EXPECT_EQ(outcomes[2], "ok");
  for (const int rank : {0, 1}) {
    const auto& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_THAT(outcome, AllOf(HasSubstr("ranks 2:"), HasSubstr("has left")));
    EXPECT_LT(seconds_of(outcome), 30) << "found out, not waited for";
  }
}

TEST_P(Misuse, WhoIsBusyElsewhereIsNamedAtTheDeadline) {
  SKIP_WITHOUT(GetParam());
  const Scenario scenario{.name = "absent", .victim = 0, .patience = std::chrono::milliseconds(500)};
  const auto outcomes = play_anywhere(GetParam(), scenario, 4);
  for (const int rank : {1, 2, 3}) {
    EXPECT_THAT(outcomes[static_cast<std::size_t>(rank)],
                AllOf(HasSubstr("ranks 0:"), HasSubstr("has not called barrier #1")));
  }
}

INSTANTIATE_TEST_SUITE_P(Comm, Misuse, ::testing::ValuesIn(kBackends),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace yoke::comm::testing
