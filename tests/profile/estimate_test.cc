#include <gmock/gmock.h>

#include <set>

#include "yoke/profile/estimate/devices.h"
#include "yoke/profile/estimate/roofline.h"

namespace yoke::profile {
namespace {

using ::testing::HasSubstr;

TEST(DeviceSheets, AreWholeAndHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const auto& device : known_devices()) {
    EXPECT_TRUE(names.insert(device.name).second) << device.name;
    EXPECT_FALSE(device.type.empty());
    EXPECT_GT(device.fp32_flops, 1e12) << device.name;
    EXPECT_GE(device.half_flops, device.fp32_flops) << device.name;
    EXPECT_GT(device.memory_bytes_per_s, 1e11) << device.name;
    EXPECT_GT(device.memory_bytes, 4e9) << device.name;
    EXPECT_GT(device.host_bytes_per_s, 1e10) << device.name;
    EXPECT_GE(device.peer_bytes_per_s, device.host_bytes_per_s) << device.name;
    EXPECT_EQ(find_device(device.name)->type, device.type);
  }
  for (const char* name : {"v100", "p100", "a100", "h100", "rtx3090"}) EXPECT_TRUE(names.contains(name)) << name;
}

TEST(DeviceSheets, AnUnknownNameGetsTheNearest) {
  const auto device = find_device("v10");
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().kind, base::ErrorKind::kInput);
  EXPECT_THAT(device.error().message, HasSubstr("found `v10`, expected a device that is known, did you mean `v100`?"));
}

TEST(Roofline, TheLongerOfArithmeticAndBytesCounts) {
  const DeviceSheet device{.name = "x",
                           .type = "x",
                           .fp32_flops = 1e12,
                           .half_flops = 8e12,
                           .memory_bytes_per_s = 1e11,
                           .memory_bytes = 1e9,
                           .host_bytes_per_s = 1e9,
                           .peer_bytes_per_s = 1e9};
  const auto seconds = [&](WorkKind kind, double flops, double bytes, Precision precision = Precision::kFp32) {
    return busy_seconds({.kind = kind, .flops = flops, .bytes = bytes}, device, precision);
  };
  EXPECT_DOUBLE_EQ(seconds(WorkKind::kMoving, 1e15, 8e10), 1);
  EXPECT_DOUBLE_EQ(seconds(WorkKind::kMatrix, 0.72e12, 0), 1);
  EXPECT_DOUBLE_EQ(seconds(WorkKind::kMatrix, 0.72e12, 16e10), 2);
  EXPECT_DOUBLE_EQ(seconds(WorkKind::kConvolution3, 1.4e12, 0), 1);
  // Half of the bytes, and tensor cores, which no algorithm helps.
  EXPECT_DOUBLE_EQ(seconds(WorkKind::kMoving, 0, 8e10, Precision::kHalf), 0.5);
  EXPECT_DOUBLE_EQ(seconds(WorkKind::kConvolution3, 8 * 0.72e12, 0, Precision::kHalf), 1);
}

}  // namespace
}  // namespace yoke::profile
