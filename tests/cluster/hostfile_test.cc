#include "yoke/cluster/hostfile.h"

#include "tests/support/files.h"
#include "tests/support/paths.h"

namespace yoke::cluster {
namespace {

using ::testing::ElementsAre;
using yoke::testing::expect_input_error;

TEST(Hostfile, GoldenSampleIsRead) {
  const std::string text =
      yoke::testing::read_text(std::string(yoke::testing::kSourceDir) + "/tests/cluster/data/hostfile");
  const auto imported = parse_hostfile(text, "hosts");
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  EXPECT_THAT(
      imported->cluster.nodes(),
      ElementsAre(Node{.name = "node0", .devices = 8}, Node{.name = "node1", .devices = 6},
                  Node{.name = "node2", .address = "user@node2", .devices = 2}, Node{.name = "fe80::1", .devices = 4},
                  Node{.name = "fe80::2", .devices = 3}, Node{.name = "node3", .devices = 1}));
  EXPECT_THAT(imported->ignored, ElementsAre("hosts:5: max_slots=4 of node2"));
}

TEST(Hostfile, WritesWhatItReads) {
  const auto imported = parse_hostfile("me@a:2\r\nfe80::1%eth0 slots=4\n10.0.0.1 max_slots=3 slots=2", "hosts");
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  const std::string text = to_hostfile(imported->cluster);
  EXPECT_EQ(text, "me@a slots=2\nfe80::1%eth0 slots=4\n10.0.0.1 slots=2\n");
  const auto again = parse_hostfile(text, "again");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->cluster, imported->cluster);
}

TEST(Hostfile, BadInputIsOneErrorWithItsLine) {
  const auto parse = [](const std::string& text) { return parse_hostfile("ok slots=1\n" + text, "hosts"); };
  expect_input_error(parse_hostfile("", "hosts"), "hosts: found no host");
  expect_input_error(parse_hostfile("# only\n\n", "hosts"), "hosts: found no host");
  for (const std::string& host :
       std::vector<std::string>{":4", "[::1", "[::1]4", "@a", "a@", "a@b@c", "^a", "[]", "[a]:2", "[a:b]:2", "a$b"}) {
    expect_input_error(parse(host), "hosts:2: found `" + host + "`, expected a host such as");
  }
  for (const std::string& count :
       std::vector<std::string>{"", "0", "-1", "x", "2.5", "nan", "1000001", "99999999999999999999"}) {
    expect_input_error(parse("a slots=" + count), "hosts:2: found slots=`" + count + "`, expected a whole number");
    expect_input_error(parse("a:" + count), "hosts:2: found slots=`" + count + "`");
  }
  expect_input_error(parse("a slot=4"),
                     "hosts:2: found `slot=4`, expected slots=<number> or max_slots=<number>, did you mean `slots`?");
  expect_input_error(parse("a b"), "hosts:2: found `b`");
  expect_input_error(parse("a slots"), "hosts:2: found slots=``");
  expect_input_error(parse("a:2 slots=2"), "hosts:2: the slots of host `a` are given twice");
  expect_input_error(parse("a slots=4 max_slots=2"), "hosts:2: found max_slots 2 below slots 4");
  expect_input_error(parse("me@a\nyou@a"), "hosts:3: the host `a` is given with two users");
  expect_input_error(parse("a slots=1000000\na"), "hosts:3: the host `a` has 1000001 slots");
  expect_input_error(parse(std::string(300, 'a')), "hosts:2: name");
  expect_input_error(parse(std::string("\0\xff", 2)), "hosts:2: found `\\x00\\xff`");
}

}  // namespace
}  // namespace yoke::cluster
