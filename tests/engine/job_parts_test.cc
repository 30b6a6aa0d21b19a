#include "yoke/engine/job_parts.h"

#include <gtest/gtest.h>

namespace yoke::engine {
namespace {

TEST(JobParts, ProcessorsComputeOnTheCoresOfAMachineWithGpus) {
  const auto index = [](const std::string& type, int number, int available) {
    return cuda_index({.id = {"n", number}, .type = type}, available);
  };
  EXPECT_EQ(index("cpu", 0, 4), std::nullopt);
  EXPECT_EQ(index("slow-cpu", 1, 4), std::nullopt);
  EXPECT_EQ(index("V100", 0, 4), 0);
  EXPECT_EQ(index("V100", 3, 4), 3);
  EXPECT_EQ(index("V100", 4, 4), std::nullopt) << "more devices than GPUs: emulated";
  EXPECT_EQ(index("V100", 0, 0), std::nullopt);
}

TEST(JobParts, PrecisionsOfGpusAreRefusedOnProcessors) {
  plan::Job job;
  const DeviceSpec processor{.id = {"n", 0}, .type = "slow-cpu"};
  const auto device = make_device(job, processor);
  ASSERT_TRUE(device.ok()) << device.error().to_string();
  EXPECT_TRUE((*device)->where().is_cpu());
  job.precision = plan::Precision::kFp16;
  const auto refused = make_device(job, processor);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().where.field, "precision");
}

}  // namespace
}  // namespace yoke::engine
