// The contract and the failures of the other backends, for ranks that mpirun has started. Rank 0 serves the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/comm/ranks.h"
#include "tests/support/mpirun.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace yoke::comm::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using yoke::testing::Process;

Process mpirun(int size, const Scenario& scenario, const yoke::testing::TempFolder& folder) {
  std::vector<std::string> command{
      "mpirun", "--oversubscribe", "-n", std::to_string(size), yoke::testing::program("yoke_comm_rank"), "backend=mpi"};
  for (const auto& word : words_of(scenario)) command.push_back(word);
  return Process(command, yoke::testing::mpirun_environment(folder.path()));
}

class Mpi : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!has_backend("mpi")) GTEST_SKIP() << "mpi is not in this build";
  }
  const yoke::testing::TempFolder folder_;
};

TEST_P(Mpi, TheContractHolds) {
  const int size = GetParam();
  auto job = mpirun(size, {.name = "contract", .patience = std::chrono::seconds(60)}, folder_);
  ASSERT_TRUE(job.wait(std::chrono::seconds(240)));
  EXPECT_EQ(job.exit_code(), 0) << job.output();
  // MPI itself may have something to say about the machine.
  int fine = 0;
  std::istringstream lines(job.output());
  for (std::string line; std::getline(lines, line);) fine += line == "ok" ? 1 : 0;
  EXPECT_EQ(fine, size) << job.output();
}

INSTANTIATE_TEST_SUITE_P(Comm, Mpi, ::testing::Values(1, 2, 3, 4, 7),
                         [](const auto& param) { return std::to_string(param.param); });

class MpiFailure : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!has_backend("mpi")) GTEST_SKIP() << "mpi is not in this build";
  }
  Scenario scenario(const std::string& act, std::chrono::milliseconds patience) const {
    return {.name = "loop", .op = GetParam(), .victim = 1, .act = act, .patience = patience};
  }
  const yoke::testing::TempFolder folder_;
};

TEST_P(MpiFailure, AKilledRankEndsTheJobAndTheReportSaysWhoDied) {
  auto job = mpirun(3, scenario("kill", std::chrono::seconds(20)), folder_);
  ASSERT_TRUE(job.wait(std::chrono::seconds(60)));
  EXPECT_NE(job.exit_code(), 0);
  EXPECT_THAT(job.output(), AllOf(HasSubstr("noticed that process rank 1"), HasSubstr("signal 9 (Killed)")));
}

TEST_P(MpiFailure, AStoppedRankIsNamedAtTheDeadline) {
  auto job = mpirun(3, scenario("stop", std::chrono::milliseconds(1500)), folder_);
  // The others report and end; mpirun goes on for the sake of the stopped one until it is told to end.
  std::string output;
  for (int i = 0; i < 600 && output.find("ranks 1:") == std::string::npos; ++i) {
    job.wait(std::chrono::milliseconds(100));
    output = job.output();
  }
  EXPECT_THAT(output, AllOf(HasSubstr("failed after"), HasSubstr("ranks 1:"), HasSubstr("does not answer")));
}

TEST_P(MpiFailure, ARankThatIsCutOffEndsTheJobOrIsNamed) {
  auto job = mpirun(3, scenario("disconnect", std::chrono::milliseconds(1500)), folder_);
  ASSERT_TRUE(job.wait(std::chrono::seconds(60)));
  EXPECT_TRUE(job.exit_code() != 0 || job.output().find("ranks 1:") != std::string::npos) << job.output();
}

INSTANTIATE_TEST_SUITE_P(Comm, MpiFailure,
                         ::testing::Values("all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier",
                                           "message"),
                         [](const auto& param) { return std::string(param.param); });

TEST(MpiBackend, NeedsRanksThatMpirunHasStarted) {
  if (!has_backend("mpi")) GTEST_SKIP() << "mpi is not in this build";
  const base::SystemClock clock;
  const auto store = make_memory_store();
  const auto joined =
      join({.name = "g", .backend = "mpi"}, *store, base::Deadline::in(std::chrono::seconds(5), clock), clock);
  ASSERT_FALSE(joined.ok());
  EXPECT_THAT(joined.error().message, HasSubstr("mpirun"));
}

}  // namespace
}  // namespace yoke::comm::testing
