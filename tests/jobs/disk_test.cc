// A disk that is full in the middle of a checkpoint.
#include "tests/jobs/whole_job.h"
#include "tests/support/paths.h"

namespace yoke::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class AFullDisk : public WholeJob {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can mount a small disk";
    std::filesystem::create_directory(disk_);
    if (!works(with_disk("1m", "true"))) GTEST_SKIP() << "needs the right to mount a tmpfs in a namespace";
  }

  /// A shell script that alone sees the disk.
  std::vector<std::string> with_disk(const std::string& size, const std::string& script) const {
    return {"unshare", "--mount", "bash", "-c",
            fmt::format("mount -t tmpfs -o size={} none {} || exit 99\n{}", size, disk_, script)};
  }

  const std::string disk_ = temp_.file("disk");
};

TEST_F(AFullDisk, KeepsTheLastCheckpointAndTheRunGoesOn) {
  // A checkpoint of this job takes 400 kB: there is room for two and a part of the third, at step 6.
  const std::string cluster = temp_.write("cluster.yaml", "nodes:\n- {name: node0, devices: 2}\n");
  const std::string train = line({yoke::testing::program("yoke"), "run", job_, "--cluster", cluster, "--run-dir",
                                  disk_ + "/run", "--set", "checkpoint.every_steps=2", "--set", "checkpoint.keep=9"});
  const std::string output = run(with_disk("1200k", fmt::format(R"(
{0}
echo "shell: code $?"
ls {1}/run/checkpoints
mount -o remount,size=64m {1}
{0} --resume
code=$?
cp -r {1}/run {2}
exit $code)",
                                                                train, disk_, temp_.file("run"))));
  const auto at = output.find("shell: code ");
  ASSERT_NE(at, std::string::npos) << output;
  const std::string failed = output.substr(0, at);
  const std::string resumed = output.substr(at);
  EXPECT_THAT(failed,
              AllOf(HasSubstr("yoke: error: rank 0 (node0:0 on "), HasSubstr("checkpoints/step-000000006/"),
                    HasSubstr(".safetensors: cannot write: No space left on device"), HasSubstr("make room there")));
  EXPECT_THAT(resumed, AllOf(HasSubstr("shell: code 4\nstep-000000002\nstep-000000004\n"),
                             HasSubstr("goes on after step 4"), HasSubstr("8 steps, 128 samples, 2 epochs")));
  EXPECT_EQ(number("steps"), kSmallJobSteps);
  run({yoke::testing::program("yoke"), "run", job_, "--run-dir", temp_.file("alone")});
  EXPECT_EQ(weights(), weights("alone")) << "as if nothing had been";
}

}  // namespace
}  // namespace yoke::testing
