#include "yoke/cluster/device_type.h"

#include <gtest/gtest.h>

#include "yoke/cluster/cluster.h"

namespace yoke::cluster {
namespace {

TEST(DeviceType, ProcessorsAreToldByTheirName) {
  for (const char* type : {"cpu", "slow-cpu", "Xeon E5-cpu", "-cpu"}) EXPECT_TRUE(is_processor(type)) << type;
  for (const char* type : {"", "CPU", "gpu", "cpu-like", "notcpu", "Tesla V100-PCIE-16GB"}) {
    EXPECT_FALSE(is_processor(type)) << type;
  }
  EXPECT_TRUE(is_processor(Node{}.type)) << "what a cluster file does not say";
}

}  // namespace
}  // namespace yoke::cluster
