#include "yoke/cli/launch/environment.h"

#include <gmock/gmock.h>

#include <map>

namespace yoke::cli {
namespace {

using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

base::Result<RankIdentity> identify(const Variables& variables) {
  return identify_rank([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty()) return std::nullopt;
    return found->second;
  });
}

void expect_fault(const Variables& variables, const std::string& variable, const std::string& part) {
  const auto identity = identify(variables);
  ASSERT_FALSE(identity.ok()) << variable;
  EXPECT_EQ(identity.error().kind, base::ErrorKind::kInput);
  EXPECT_EQ(identity.error().where.field, variable) << identity.error().to_string();
  EXPECT_THAT(identity.error().message, HasSubstr(part));
}

const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "a"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "none"}};
const Variables kMpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "4"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables kSrun{{"SLURM_PROCID", "5"},    {"SLURM_NTASKS", "8"},
                      {"SLURM_LOCALID", "1"},   {"SLURM_JOB_NODELIST", "gpu[07-09],x"},
                      {"SLURM_JOB_ID", "1234"}, {"SLURM_STEP_ID", "2"}};

Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

TEST(Environment, YokesOwn) {
  const auto identity = identify(with(kTorchrun, {{"YOKE_RANK", "0"}, {"YOKE_SIZE", "2"}, {"YOKE_STORE", "h:7"}}));
  ASSERT_TRUE(identity.ok()) << identity.error().to_string();
  EXPECT_EQ(identity->launcher, Launcher::kYoke);
  EXPECT_EQ(identity->rank, 0);
  EXPECT_EQ(identity->size, 2);
  EXPECT_EQ(identity->store, "h:7");
  expect_fault({{"YOKE_RANK", "0"}, {"YOKE_SIZE", "2"}}, "YOKE_STORE", "host:port");
  expect_fault({{"YOKE_RANK", "0"}, {"YOKE_SIZE", "2"}, {"YOKE_STORE", "h"}}, "YOKE_STORE", "found `h`");
  expect_fault({{"YOKE_RANK", "0"}, {"YOKE_STORE", "h:1"}}, "YOKE_SIZE", "found YOKE_RANK without it");
}

TEST(Environment, Torchrun) {
  const auto identity = identify(kTorchrun);
  ASSERT_TRUE(identity.ok()) << identity.error().to_string();
  EXPECT_EQ(identity->launcher, Launcher::kTorchrun);
  EXPECT_EQ(identity->rank, 3);
  EXPECT_EQ(identity->size, 8);
  EXPECT_EQ(identity->local_rank, 1);
  EXPECT_EQ(identity->local_size, 2);
  EXPECT_EQ(identity->store, "a:29500");
  // torchrun itself holds the port then.
  EXPECT_EQ(identify(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}))->store, "a:29501");
  EXPECT_EQ(identify(with(kTorchrun, {{"MASTER_ADDR", "fe80::1"}}))->store, "[fe80::1]:29500");
  EXPECT_EQ(identify(with(kTorchrun, kMpirun))->rank, 3) << "torchrun under mpirun";

  expect_fault(with(kTorchrun, {{"RANK", "x"}}), "RANK", "found `x`");
  expect_fault(with(kTorchrun, {{"RANK", "-1"}}), "RANK", "found `-1`");
  expect_fault(with(kTorchrun, {{"RANK", "8"}}), "RANK", "rank 8 of WORLD_SIZE 8");
  expect_fault(with(kTorchrun, {{"WORLD_SIZE", ""}}), "WORLD_SIZE", "found RANK without it");
  expect_fault(with(kTorchrun, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE", "found `0`");
  expect_fault(with(kTorchrun, {{"LOCAL_RANK", "2"}}), "LOCAL_RANK", "less than the 2 ranks of this host");
  expect_fault(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}), "LOCAL_WORLD_SIZE", "9 ranks on this host");
  expect_fault(with(kTorchrun, {{"MASTER_ADDR", ""}}), "MASTER_ADDR", "found MASTER_PORT without it");
  expect_fault(with(kTorchrun, {{"MASTER_PORT", ""}}), "MASTER_PORT", "found MASTER_ADDR without it");
  expect_fault(with(kTorchrun, {{"MASTER_PORT", "70000"}}), "MASTER_PORT", "found `70000`");
  expect_fault({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, "MASTER_ADDR", "found RANK without it");
}

TEST(Environment, RankSetByHandMustFitTheLaunchers) {
  const Variables hand{{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
  expect_fault(with(hand, kMpirun), "RANK", "rank 1 of 4 by OMPI_COMM_WORLD_RANK");
  expect_fault(with(hand, kSrun), "RANK", "rank 5 of 8 by SLURM_PROCID");
  EXPECT_TRUE(identify(with(with(hand, kMpirun), {{"RANK", "1"}})).ok());
}

TEST(Environment, Mpirun) {
  const auto identity = identify(with(kMpirun, kSrun));
  ASSERT_TRUE(identity.ok()) << identity.error().to_string();
  EXPECT_EQ(identity->launcher, Launcher::kMpirun) << "mpirun inside a Slurm job";
  EXPECT_EQ(identity->rank, 1);
  EXPECT_EQ(identity->size, 4);
  EXPECT_EQ(identity->local_size, 2);
  EXPECT_EQ(identity->store, "") << "MPI shares it";
  EXPECT_EQ(identify(with(kMpirun, {{"MASTER_ADDR", "b"}, {"MASTER_PORT", "5"}}))->store, "b:5");
  expect_fault(with(kMpirun, {{"OMPI_COMM_WORLD_SIZE", ""}}), "OMPI_COMM_WORLD_SIZE", "as mpirun sets it");
  expect_fault(with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}), "OMPI_COMM_WORLD_LOCAL_RANK", "less than");
}

TEST(Environment, Srun) {
  const auto identity = identify(kSrun);
  ASSERT_TRUE(identity.ok()) << identity.error().to_string();
  EXPECT_EQ(identity->launcher, Launcher::kSrun);
  EXPECT_EQ(identity->rank, 5);
  EXPECT_EQ(identity->size, 8);
  EXPECT_EQ(identity->local_rank, 1);
  EXPECT_THAT(identity->store, ::testing::StartsWith("gpu07:"));
  EXPECT_EQ(identify(kSrun)->store, identify(with(kSrun, {{"SLURM_PROCID", "0"}}))->store);
  EXPECT_NE(identify(kSrun)->store, identify(with(kSrun, {{"SLURM_STEP_ID", "3"}}))->store);
  EXPECT_EQ(identify(with(kSrun, {{"SLURM_STEP_NUM_TASKS", "6"}}))->size, 6) << "a step smaller than its job";
  EXPECT_THAT(identify(with(kSrun, {{"SLURM_STEP_NODELIST", "b3"}}))->store, ::testing::StartsWith("b3:"));
  EXPECT_EQ(identify(with(kSrun, {{"MASTER_ADDR", "b"}, {"MASTER_PORT", "5"}}))->store, "b:5");
  expect_fault(with(kSrun, {{"SLURM_NTASKS", ""}}), "SLURM_NTASKS", "found SLURM_PROCID without it");
  expect_fault(with(kSrun, {{"SLURM_JOB_NODELIST", ""}}), "SLURM_JOB_NODELIST", "the hosts of the job");
  expect_fault(with(kSrun, {{"SLURM_JOB_NODELIST", "gpu["}}), "SLURM_JOB_NODELIST", "found `gpu[`");
  expect_fault(with(kSrun, {{"SLURM_JOB_ID", ""}}), "SLURM_JOB_ID", "the job's number");
}

TEST(Environment, FirstHostOfASlurmList) {
  EXPECT_EQ(*first_slurm_host("login"), "login");
  EXPECT_EQ(*first_slurm_host("a,b"), "a");
  EXPECT_EQ(*first_slurm_host("gpu[07-09,12]"), "gpu07");
  EXPECT_EQ(*first_slurm_host("gpu[3,1]"), "gpu3");
  EXPECT_EQ(*first_slurm_host("rack[1-2]n[01-08],x"), "rack1n01");
  EXPECT_EQ(*first_slurm_host("n[1-2]-ib,y"), "n1-ib");
  for (const char* bad : {"", ",a", "a[", "a[]", "a[,1]", "a[-2]", "a b"})
    EXPECT_FALSE(first_slurm_host(bad).ok()) << bad;
}

TEST(Environment, NoLauncherIsAnErrorThatSaysWhatToUse) {
  expect_fault({}, "RANK", "`yoke run JOB` starts all ranks");
}

}  // namespace
}  // namespace yoke::cli
