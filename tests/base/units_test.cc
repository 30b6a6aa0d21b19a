#include "yoke/base/units.h"

#include <gtest/gtest.h>

#include <cmath>

#include "yoke/base/rng.h"

namespace yoke::base {
namespace {

TEST(Units, ParsesSizes) {
  EXPECT_EQ(parse_bytes("4096")->count, 4096);
  EXPECT_EQ(parse_bytes("25MB")->count, 25'000'000);
  EXPECT_EQ(parse_bytes("25 MiB")->count, 25 * 1024 * 1024);
  EXPECT_EQ(parse_bytes("1.5e9")->count, 1'500'000'000);
  EXPECT_EQ(parse_bytes("0")->count, 0);
}

TEST(Units, ParsesBandwidths) {
  EXPECT_DOUBLE_EQ(parse_bandwidth("10Gbit/s")->bytes_per_s, 1.25e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("15e9")->bytes_per_s, 15e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("12.5GB/s")->bytes_per_s, 12.5e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("100Mbps")->bytes_per_s, 12.5e6);
}

TEST(Units, ParsesDurations) {
  EXPECT_EQ(*parse_duration("300ms"), std::chrono::milliseconds(300));
  EXPECT_EQ(*parse_duration("2.5s"), std::chrono::milliseconds(2500));
  EXPECT_EQ(*parse_duration("5min"), std::chrono::minutes(5));
  EXPECT_EQ(*parse_duration("0.25"), std::chrono::milliseconds(250));
}

TEST(Units, RefusesWhatIsNotAQuantity) {
  for (const char* text : {"", " ", "MB", "-5MB", "nan", "inf", "1e400", "25QB", "1,5GB", "0x10", "--1", "5 5"}) {
    EXPECT_FALSE(parse_bytes(text).ok()) << text;
  }
  EXPECT_FALSE(parse_bytes("1e19").ok());
  EXPECT_FALSE(parse_bandwidth("10GB").ok()) << "a size is no bandwidth";
  EXPECT_FALSE(parse_duration("1e300h").ok());
}

TEST(Units, NamesTheNearestUnit) {
  EXPECT_NE(parse_bytes("25Mb").error().message.find("did you mean `MB`"), std::string::npos);
  EXPECT_NE(parse_bandwidth("10Gbits/s").error().message.find("did you mean `Gbit/s`"), std::string::npos);
}

TEST(Units, IntegersKeepAllDigits) {
  EXPECT_EQ(*parse_integer("9223372036854775807"), 9223372036854775807);
  EXPECT_EQ(*parse_integer("1e6"), 1'000'000);
  EXPECT_FALSE(parse_integer("1.5").ok());
  EXPECT_FALSE(parse_integer("1e30").ok());
  EXPECT_FALSE(parse_integer("").ok());
}

TEST(Units, ExactTextParsesBack) {
  Stream random({.seed = 7});
  for (int i = 0; i < 10'000; ++i) {
    const double value = (random.uniform() - 0.5) * std::pow(10.0, static_cast<double>(random.below(40)) - 20);
    EXPECT_EQ(*parse_number(exact(value)), value);
  }
}

TEST(Units, FormatsForPeople) {
  EXPECT_EQ(format(Bytes{512}), "512 B");
  EXPECT_EQ(format(Bytes{16'945'512'448}), "16.9 GB");
  EXPECT_EQ(format(Bytes{999'999}), "1.0 MB");
  EXPECT_EQ(format(Bandwidth{12.5e9}), "12.5 GB/s");
  EXPECT_EQ(format_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(format_seconds(125), "2m 05s");
  EXPECT_EQ(format_seconds(7500), "2h 05m");
  EXPECT_EQ(format_seconds(1e300), "1.0e+300 s");
}

}  // namespace
}  // namespace yoke::base
