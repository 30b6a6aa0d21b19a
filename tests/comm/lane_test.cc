#include <gmock/gmock.h>

#include <limits>
#include <set>
#include <vector>

#include "yoke/comm/gloo/slot.h"
#include "yoke/comm/mpi/lane.h"

namespace yoke::comm {
namespace {

/// Lanes that differ from each other by as little as they can, at both ends of every field.
std::vector<Lane> unlike_lanes() {
  constexpr auto kLast = std::numeric_limits<std::uint32_t>::max();
  std::vector<Lane> lanes;
  for (const auto kind : {Lane::Kind::kBare, Lane::Kind::kHeaded, Lane::Kind::kBody}) {
    for (const auto channel : {Channel::kCollective, Channel::kMessage}) {
      for (const std::uint32_t tag : {0U, 1U, kLast / 2, kLast / 2 + 1, kLast}) {
        lanes.push_back({.kind = kind, .channel = channel, .tag = tag});
      }
    }
  }
  return lanes;
}

TEST(GlooSlot, UnlikeLanesNeverShareOne) {
  std::set<std::uint64_t> slots{kGlooCanarySlot};
  auto lanes = unlike_lanes();
  for (const std::uint64_t bytes : {1UL, 4096UL, 500'000'000UL, 600'000'000UL}) {
    lanes.push_back({.kind = Lane::Kind::kBody, .bytes = bytes});
  }
  for (const Lane& lane : lanes) slots.insert(gloo_slot(lane));
  EXPECT_EQ(slots.size(), lanes.size() + 1);
}

TEST(GlooSlot, BodiesStayBodiesWhateverTheirSize) {
  const Lane huge{.kind = Lane::Kind::kBody, .bytes = std::numeric_limits<std::uint64_t>::max()};
  EXPECT_EQ(gloo_slot(huge) >> 62U, static_cast<std::uint64_t>(Lane::Kind::kBody));
}

TEST(MpiLane, UnlikeLanesNeverShareOne) {
  std::set<MpiLane> lanes;
  for (const Lane& lane : unlike_lanes()) lanes.insert(mpi_lane(lane));
  EXPECT_EQ(lanes.size(), unlike_lanes().size());
}

TEST(MpiLane, StaysWithinWhatMpiHas) {
  for (const Lane& lane : unlike_lanes()) {
    EXPECT_THAT(mpi_lane(lane).communicator, ::testing::AllOf(::testing::Ge(0), ::testing::Lt(kMpiCommunicators)));
    EXPECT_GE(mpi_lane(lane).tag, 0);
  }
}

}  // namespace
}  // namespace yoke::comm
