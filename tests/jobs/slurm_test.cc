// `yoke train` under a real Slurm: munged, slurmctld and two slurmd of the test's own, in namespaces of their own. All
// of them, and whatever they start, are gone with the first process of those, and that with this process.
#include "tests/jobs/whole_job.h"
#include "tests/support/paths.h"

namespace yoke::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Two nodes on this machine. Everything is in the folder D; ports cannot be taken, nobody else is in the network.
/// Ends with 99 and the logs if Slurm does not get ready.
constexpr const char* kStartSlurm = R"(
set -u
export PATH=$PATH:/usr/sbin:/sbin
cd "$D" && mkdir state
# Slurm listens only where the host has an address beside 127.0.0.1.
ip link set lo up && ip addr add 10.77.0.9/32 dev lo
{ cat /etc/hosts; echo '127.0.0.1 n1'; echo '127.0.0.2 n2'; } >hosts && mount --bind hosts /etc/hosts
(umask 077; head -c 1024 /dev/urandom >key)
munged --foreground --key-file="$D/key" --socket="$D/munge" --pid-file="$D/munged.pid" --log-file="$D/munged.log" \
  --seed-file="$D/seed" --num-threads=2 --force >munged.out 2>&1 &
cat >slurm.conf <<END
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$D/munge
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool-%n
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/slurmd-%n.pid
SlurmctldLogFile=$D/slurmctld.log
SlurmdLogFile=$D/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
MailProg=/bin/true
ReturnToService=2
NodeName=n[1-2] NodeHostname=localhost Port=[7001-7002] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=n[1-2] Default=YES State=UP
END
case $(slurmd -V) in # which of the two asks nothing of the machine
  *\ 2[0-2].*) echo CgroupPlugin=cgroup/v1 >cgroup.conf ;;
  *) echo CgroupPlugin=disabled >cgroup.conf ;;
esac
export SLURM_CONF=$D/slurm.conf
for i in $(seq 200); do [ -S munge ] && break; sleep 0.05; done
slurmctld -D >slurmctld.out 2>&1 &
for node in n1 n2; do slurmd -D -N $node >slurmd-$node.out 2>&1 & done
state=
for i in $(seq 100); do
  state=$(timeout 5 sinfo -h -o '%t %D' 2>&1)
  [ "$state" = 'idle 2' ] && break
  sleep 0.1
done
if [ "$state" != 'idle 2' ]; then
  echo "Slurm did not get ready: $state"
  tail -n 30 *.log *.out
  exit 99
fi
)";

class UnderSlurm : public WholeJob {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can start a Slurm";
    for (const char* program : {"munged", "slurmctld", "slurmd", "srun", "sinfo", "ip"}) {
      if (!works({"/bin/sh", "-c", fmt::format("PATH=$PATH:/usr/sbin:/sbin command -v {}", program)})) {
        GTEST_SKIP() << program << " is not installed (setup.sh installs it)";
      }
    }
    if (!works(inside("true"))) GTEST_SKIP() << "needs the right to make namespaces";
  }

  /// A shell script in namespaces of its own.
  static std::vector<std::string> inside(const std::string& script) {
    return {"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "bash", "-c", script};
  }
  /// Starts Slurm, then does the commands.
  std::string with_slurm(const std::string& commands, int expected_code) const {
    const std::string folder = temp_.file("slurm");
    std::filesystem::create_directory(folder);
    return run(inside(fmt::format("D={}\n{}\n{}", folder, kStartSlurm, commands)), expected_code);
  }
};

TEST_F(UnderSlurm, RanksOfTwoNodesTrain) {
  const std::string output = with_slurm(line({"srun", "-N", "2", "-n", "2", yoke::testing::program("yoke"), "train",
                                              job_, "--run-dir", temp_.file("run")}),
                                        0);
  EXPECT_THAT(output, HasSubstr("8 steps, 128 samples, 2 epochs"));
  EXPECT_EQ(number("steps"), kSmallJobSteps);
  EXPECT_THAT(read_text(in_run("cluster.yaml")), HasSubstr("devices: 2"));
  run({yoke::testing::program("yoke"), "run", job_, "--run-dir", temp_.file("alone")});
  EXPECT_EQ(weights(), weights("alone"));
}

TEST_F(UnderSlurm, ARankThatIsKilledEndsTheJobAndIsNamed) {
  // srun's exit code is the highest of its tasks': that of the killed one, 128 + 9.
  const std::string commands = fmt::format(
      R"sh(R={}
srun -N 2 -n 2 sh -c 'echo $$ >pid-$SLURM_PROCID; exec {} train {} --run-dir {} --set epochs=100000' & srun=$!
for i in $(seq 600); do [ "$(cat $R/metrics.jsonl 2>/dev/null | wc -l)" -gt 5 ] && break; sleep 0.1; done
kill -9 "$(cat pid-1)"
wait $srun)sh",
      temp_.file("run"), yoke::testing::program("yoke"), job_, temp_.file("run"));
  EXPECT_THAT(with_slurm(commands, 137), AllOf(HasSubstr("task 1: Killed"), HasSubstr("was lost: the process ended"),
                                               HasSubstr("task 0: Exited with exit code 4")));
  EXPECT_FALSE(base::exists(in_run("result.json")));
}

}  // namespace
}  // namespace yoke::testing
