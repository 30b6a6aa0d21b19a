#include "yoke/sim/network.h"

#include <gmock/gmock.h>

#include "tests/sim/uniform.h"
#include "tests/support/files.h"

namespace yoke::sim {
namespace {

using yoke::testing::expect_input_error;

Network make(const cluster::Cluster& cluster, const std::vector<cluster::DeviceId>& devices,
             const NetworkOptions& options = {}) {
  auto network = Network::make(cluster, devices, options);
  EXPECT_TRUE(network.ok()) << network.error().to_string();
  return *network;
}

/// When each of several transfers ends that begin at the given times.
std::vector<double> ends(const Network& network, const std::vector<std::pair<double, const Path*>>& begins,
                         double bytes) {
  Transfers transfers(network);
  std::multimap<double, Transfers::Look> looks;
  std::map<int, std::size_t> number;
  std::vector<double> result(begins.size(), -1);
  std::size_t next = 0;
  while (next < begins.size() || !looks.empty()) {
    if (next < begins.size() && (looks.empty() || begins[next].first < looks.begin()->first)) {
      const int transfer = transfers.begin(begins[next].first, bytes, *begins[next].second);
      number[transfer] = next++;
    } else {
      const Transfers::Look look = looks.begin()->second;
      looks.erase(looks.begin());
      if (transfers.over(look.at, look.transfer, look.turn)) result[number[look.transfer]] = look.at;
    }
    for (const auto& look : transfers.looks()) looks.emplace(look.at, look);
    transfers.looks().clear();
  }
  return result;
}

TEST(Network, ATransferTakesBytesOverBandwidth) {
  const Network network = make(nodes(2, 2, 100, 10), {{"n0", 0}, {"n0", 1}, {"n1", 0}});
  const Path inside = network.between(0, 1);
  const Path outside = network.between(0, 2);
  EXPECT_DOUBLE_EQ(ends(network, {{0, &inside}}, 50)[0], 0.5);
  EXPECT_DOUBLE_EQ(ends(network, {{0, &outside}}, 50)[0], 5);
}

TEST(Network, ASharedCardHalves) {
  const Network network = make(nodes(3, 2, 100, 10), {{"n0", 0}, {"n0", 1}, {"n1", 0}, {"n2", 0}});
  const Path one = network.between(0, 2);
  const Path other = network.between(1, 3);
  // Both leave through the card of n0.
  EXPECT_THAT(ends(network, {{0, &one}, {0, &other}}, 50), ::testing::ElementsAre(10, 10));
  // The second begins when the first is half through: 25 bytes at 10, then both at 5, then the rest at 10.
  EXPECT_THAT(ends(network, {{0, &one}, {2.5, &other}}, 50), ::testing::ElementsAre(7.5, 10));
  // Opposite directions do not share.
  const Path back = network.between(2, 0);
  EXPECT_THAT(ends(network, {{0, &one}, {0, &back}}, 50), ::testing::ElementsAre(5, 5));
}

TEST(Network, TheSlowerCardCounts) {
  auto list = nodes(2, 1, 100, 10).nodes();
  list[1].inter_bandwidth = base::Bandwidth{5};
  const Network network = make(*cluster::Cluster::make(list), {{"n0", 0}, {"n1", 0}});
  const Path path = network.between(0, 1);
  EXPECT_DOUBLE_EQ(ends(network, {{0, &path}}, 50)[0], 10);
}

TEST(Network, ASwitchIsSharedByAll) {
  const Network network =
      make(nodes(4, 1, 100, 10), {{"n0", 0}, {"n1", 0}, {"n2", 0}, {"n3", 0}}, {.switch_bytes_per_s = 10});
  const Path one = network.between(0, 1);
  const Path other = network.between(2, 3);
  EXPECT_THAT(ends(network, {{0, &one}, {0, &other}}, 50), ::testing::ElementsAre(10, 10));
}

TEST(Network, ARingGoesThroughEachCardOnce) {
  const Network network = make(nodes(2, 2, 100, 10), {{"n0", 0}, {"n1", 0}, {"n0", 1}, {"n1", 1}},
                               {.intra_latency = 0.001, .inter_latency = 0.01});
  const Path ring = network.ring({0, 1, 2, 3});
  // Four hops: two inside nodes (a port out and in each), two between them (a card out and in each).
  EXPECT_EQ(ring.resources.size(), 8U);
  EXPECT_DOUBLE_EQ(ring.latency, 2 * 3 * 0.01);
  EXPECT_DOUBLE_EQ(ends(network, {{0, &ring}}, 50)[0], 5);
  EXPECT_TRUE(network.ring({2}).resources.empty());
}

TEST(Network, RefusesDevicesThatAreNotThere) {
  const auto cluster = nodes(2, 2, 100, 10);
  expect_input_error(Network::make(cluster, {{"n0", 0}, {"n3", 0}}), "n3:0: the cluster has no node `n3`");
  expect_input_error(Network::make(cluster, {{"n1", 2}}), "n1:2: n1 has 2 devices, numbered from 0");
  const auto bare = *cluster::Cluster::make({{.name = "a", .devices = 2}, {.name = "b"}});
  expect_input_error(Network::make(bare, {{"a", 0}, {"a", 1}}), "`intra_bandwidth` is missing");
  expect_input_error(Network::make(bare, {{"a", 0}, {"b", 0}}), "`inter_bandwidth` is missing");
  EXPECT_TRUE(Network::make(bare, {{"a", 0}}).ok());
}

TEST(Network, WhatIsLeftOpenIsAsMeasured) {
  profile::CommProfile comm;
  comm.links = {{.scope = profile::LinkScope::kInter,
                 .op = profile::LinkOp::kAllReduce,
                 .ranks = 4,
                 .latency_ms = 9,
                 .bandwidth = {1e8}},
                {.scope = profile::LinkScope::kInter,
                 .op = profile::LinkOp::kMessage,
                 .latency_ms = 2,
                 .bandwidth = {6e8},
                 .processor_seconds_per_byte = 1e-9},
                {.scope = profile::LinkScope::kInter, .op = profile::LinkOp::kMessage, .latency_ms = 7}};
  const NetworkOptions measured = with_measured_links({}, comm);
  EXPECT_DOUBLE_EQ(measured.inter_latency, 0.002);
  EXPECT_DOUBLE_EQ(measured.inter_processor, 1e-9);
  EXPECT_EQ(measured.intra_latency, 0);
  // 1.5 times the bytes go around four ranks: at the pace of messages four times as fast as was measured.
  EXPECT_DOUBLE_EQ(measured.inter_reduce_stretch, 4);
  EXPECT_EQ(measured.intra_reduce_stretch, 0);
  const Network network = make(nodes(2, 1, 1, 1), {{"n0", 0}, {"n1", 0}}, measured);
  EXPECT_DOUBLE_EQ(network.ring({0, 1}).stretch, 4);
  EXPECT_DOUBLE_EQ(make(nodes(1, 2, 1, 1), {{"n0", 0}, {"n0", 1}}, measured).ring({0, 1}).stretch, 1);
  EXPECT_DOUBLE_EQ(with_measured_links({.inter_latency = 0.5}, comm).inter_latency, 0.5);
}

}  // namespace
}  // namespace yoke::sim
