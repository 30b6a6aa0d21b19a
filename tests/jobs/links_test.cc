// `yoke run --emulate-links`: a slow network on one machine.
#include "tests/jobs/whole_job.h"
#include "tests/support/paths.h"

namespace yoke::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class EmulatedLinks : public WholeJob {
 protected:
  std::vector<std::string> command(const std::string& nodes, const std::string& folder) const {
    return {yoke::testing::program("yoke"),
            "run",
            job_,
            "--cluster",
            temp_.write("cluster.yaml", "nodes:\n" + nodes),
            "--run-dir",
            temp_.file(folder)};
  }
  double step_seconds(const std::string& folder) const {
    const base::Document document = result(folder);
    base::Reader reader(document);
    return reader.root().field("measured_step_seconds").number();
  }
};

TEST_F(EmulatedLinks, MessagesTakeAsLongAsTheClusterSays) {
  const std::string nodes = "- {name: a, inter_bandwidth: 1MB/s}\n- {name: b, inter_bandwidth: 1MB/s}\n";
  auto slow = command(nodes, "run");
  slow.emplace_back("--emulate-links");
  run(slow);
  run(command(nodes, "fast"));
  // The sums of mlp's 64 x 256 + 256 x 128 weights and more travel in every step, each way.
  EXPECT_GT(step_seconds("run"), 4.0 * (64 * 256 + 256 * 128) / 1e6);
  EXPECT_LT(step_seconds("fast"), step_seconds("run"));
  EXPECT_EQ(weights(), weights("fast"));
}

TEST_F(EmulatedLinks, NodesMustSayHowSlow) {
  auto silent = command("- {name: a, inter_bandwidth: 1MB/s}\n- {name: b}\n", "run");
  silent.emplace_back("--emulate-links");
  EXPECT_THAT(run(silent, 2), AllOf(HasSubstr("--emulate-links"), HasSubstr("node `b` with 1 device and no")));
  auto several = command("- {name: a, devices: 2, inter_bandwidth: 1MB/s}\n", "run");
  several.emplace_back("--emulate-links");
  EXPECT_THAT(run(several, 2), HasSubstr("node `a` with 2 devices"));
}

}  // namespace
}  // namespace yoke::testing
