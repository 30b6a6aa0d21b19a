#include "yoke/plan/import/pipedream.h"

#include "tests/support/files.h"

namespace yoke::plan {
namespace {

TEST(Pipedream, MachinesBecomeNodesWithAsManyDevices) {
  profile::pipedream::Driver driver;
  driver.machines = {{"a", 0}, {"a", 1}, {"b", 2}, {"a", 7}};
  const auto cluster = cluster_of(driver);
  ASSERT_TRUE(cluster.ok()) << cluster.error().to_string();
  EXPECT_EQ(*cluster, *cluster::Cluster::make({{.name = "a", .devices = 3}, {.name = "b", .devices = 1}}));
}

}  // namespace
}  // namespace yoke::plan
