#include "yoke/comm/gloo/address.h"

#include <gmock/gmock.h>

namespace yoke::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<InterfaceAddress> kOwn = {
    {"lo", "127.0.0.1"}, {"eth0", "10.1.2.3"}, {"eth1", "192.168.0.7"}, {"lo", "::1"}, {"eth0", "fd00::5"}};

std::string found(const std::string& wanted) {
  return find_own_address(wanted, kOwn).value();
}

TEST(FindOwnAddress, TakesTheNameOfAnInterface) {
  EXPECT_EQ(found("eth0"), "10.1.2.3");
  EXPECT_EQ(found("lo"), "127.0.0.1");
}

TEST(FindOwnAddress, TakesAnAddressHoweverItIsWritten) {
  EXPECT_EQ(found("192.168.0.7"), "192.168.0.7");
  EXPECT_EQ(found("fd00:0:0::0005"), "fd00::5");
}

TEST(FindOwnAddress, AllOfTheLoopbackNetworkIsThisMachine) {
  EXPECT_EQ(found("127.1.2.3"), "127.1.2.3");
}

TEST(FindOwnAddress, AnAddressOfAnotherMachineIsAnInputErrorThatListsOurs) {
  for (const std::string wanted : {"10.9.9.9", "eth7", "fe80::1", "", "300.1.1.1"}) {
    const auto result = find_own_address(wanted, kOwn);
    ASSERT_FALSE(result.ok()) << wanted;
    EXPECT_EQ(result.error().kind, base::ErrorKind::kInput);
    EXPECT_THAT(result.error().message, AllOf(HasSubstr("`" + wanted + "`"), HasSubstr("eth1 (192.168.0.7)")));
  }
  EXPECT_THAT(find_own_address("eth0", {}).error().message, HasSubstr("none that is up"));
}

TEST(IsLoopback, KnowsBothFamilies) {
  EXPECT_TRUE(is_loopback("127.0.0.1"));
  EXPECT_TRUE(is_loopback("127.8.0.1"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("12.7.0.1"));
  EXPECT_FALSE(is_loopback("::2"));
}

TEST(OwnAddressTowards, TheLoopbackIsReachedFromTheLoopback) {
  EXPECT_EQ(own_address_towards("127.0.0.1").value(), "127.0.0.1");
}

TEST(OwnAddressTowards, EveryAddressOfOursIsReachedFromItself) {
  for (const auto& own : list_own_addresses()) {
    EXPECT_EQ(own_address_towards(own.address).value(), own.address) << own.interface;
  }
}

TEST(OwnAddressTowards, ANameIsNotAnAddress) {
  EXPECT_EQ(own_address_towards("localhost").error().kind, base::ErrorKind::kInput);
}

}  // namespace
}  // namespace yoke::comm
