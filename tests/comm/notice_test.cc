#include "yoke/comm/notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace yoke::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Membership kThree{.name = "g", .rank = 0, .size = 3, .labels = {"a pid 1", "b pid 2", "c pid 3"}};

Notice state(int rank, std::uint64_t sequence, std::string op = "") {
  return {.kind = NoticeKind::kState, .rank = rank, .sequence = sequence, .op = std::move(op)};
}
Notice late(int rank, std::uint64_t sequence, int peer, std::string op) {
  return {.kind = NoticeKind::kTrouble,
          .rank = rank,
          .sequence = sequence,
          .peer = peer,
          .trouble = Trouble::Kind::kTimedOut,
          .op = std::move(op)};
}

TEST(Notice, TravelsAsOneLine) {
  const Notice notice{.kind = NoticeKind::kTrouble,
                      .rank = 2,
                      .sequence = 9,
                      .peer = -1,
                      .trouble = Trouble::Kind::kMismatch,
                      .message = true,
                      .op = "all_reduce #9",
                      .text = "why, oh why"};
  EXPECT_EQ(decode_notice(encode(notice), 3), notice);
  Notice odd = notice;
  odd.op = "a\x1f b";
  EXPECT_EQ(decode_notice(encode(odd), 3)->op, "a  b") << "no text can break the line apart";
  for (const char* garbage : {"", "x", "1\x1f", "9\x1f\x31\x1f\x31\x1f\x31\x1f\x31\x1f\x31\x1f\x1f"}) {
    EXPECT_FALSE(decode_notice(garbage, 3).has_value());
  }
  EXPECT_FALSE(decode_notice(encode(notice) + "\x1fmore", 3).has_value()) << "one field too many";
  odd.text = "red \x1b[31m";
  EXPECT_EQ(decode_notice(encode(odd), 3)->text, "red \\x1b[31m") << "no text can steer a terminal";
}

TEST(Notice, OfRanksThatAreNotThereIsNone) {
  const Notice notice{.rank = 2, .peer = 1};
  EXPECT_TRUE(decode_notice(encode(notice), 3).has_value());
  EXPECT_FALSE(decode_notice(encode(notice), 2).has_value());
  for (const auto& stranger : {Notice{.rank = -1}, Notice{.rank = 3}, Notice{.peer = -2}, Notice{.peer = 3}}) {
    EXPECT_FALSE(decode_notice(encode(stranger), 3).has_value()) << stranger.rank << ' ' << stranger.peer;
  }
}

TEST(Verdict, ALossSpeaksForItself) {
  const std::vector<Notice> notices{late(0, 3, 2, "barrier #3"), {.kind = NoticeKind::kLost, .rank = 1}};
  const auto verdict = decide(notices, kThree, false);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_THAT(verdict->ranks, ElementsAre(1));
  EXPECT_THAT(verdict->cause, HasSubstr("rank 1 (b pid 2) was lost"));
}

TEST(Verdict, WhatWasSaidFirstIsTheCause) {
  const std::vector<Notice> notices{{.kind = NoticeKind::kAborted, .rank = 2, .text = "enough"},
                                    {.kind = NoticeKind::kLost, .rank = 1}};
  EXPECT_THAT(decide(notices, kThree, false)->cause, HasSubstr("rank 2 (c pid 3) aborted: enough"));
}

TEST(Verdict, ADisagreementWithNobodyBlamesNobodyElse) {
  Notice odd = late(1, 3, -1, "barrier #3");
  odd.trouble = Trouble::Kind::kMismatch;
  const std::vector<Notice> notices{odd, state(0, 3, "barrier #3"), state(2, 3, "barrier #3")};
  const auto verdict = decide(notices, kThree, true);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_THAT(verdict->ranks, ::testing::Each(::testing::Ge(0))) << verdict->cause;
}

TEST(Verdict, AWaitIsExplainedOnlyOnceAllHaveSpoken) {
  std::vector<Notice> notices{late(0, 7, 2, "barrier #7"), state(1, 7, "barrier #7")};
  EXPECT_FALSE(decide(notices, kThree, false).has_value());
  const auto silent = decide(notices, kThree, true);
  EXPECT_THAT(silent->ranks, ElementsAre(2));
  EXPECT_THAT(silent->cause, HasSubstr("rank 2 (c pid 3) does not answer"));
  notices.push_back(state(2, 6));
  EXPECT_THAT(decide(notices, kThree, false)->cause, HasSubstr("rank 2 (c pid 3) has not called barrier #7"));
}

TEST(Verdict, ABlamedNeighbourIsNotTheCauseIfAnotherHoldsItUp) {
  // 0 waits for 1, 1 waits for 2, and 2 does not answer: a ring.
  const std::vector<Notice> notices{late(0, 4, 1, "all_reduce #4"), late(1, 4, 2, "all_reduce #4")};
  EXPECT_THAT(decide(notices, kThree, true)->ranks, ElementsAre(2));
}

Notice waits_for_message(int rank, int peer) {
  Notice notice = late(rank, 3, peer, "receive of 8 u8");
  notice.message = true;
  return notice;
}

TEST(Verdict, AChainOfWaitsForMessagesIsFollowedToItsEnd) {
  // 0 waits for 1, 1 waits for 2, and 2 computes.
  const std::vector<Notice> notices{waits_for_message(0, 1), waits_for_message(1, 2), state(2, 3)};
  const auto verdict = decide(notices, kThree, false);
  EXPECT_THAT(verdict->ranks, ElementsAre(2));
  EXPECT_EQ(verdict->cause, "rank 2 (c pid 3) kept rank 1 (b pid 2) waiting");
}

TEST(Verdict, ABusyRankWhoseMessageOfLaterIsLateBlamesNobody) {
  // The busy rank's own notice comes first: what it waited for ahead of need, it does not need yet.
  Notice ahead = waits_for_message(2, -1);
  ahead.op = "";
  const std::vector<Notice> notices{ahead, waits_for_message(0, 1), waits_for_message(1, 2)};
  EXPECT_EQ(decide(notices, kThree, false)->cause, "rank 2 (c pid 3) kept rank 1 (b pid 2) waiting");
  const std::vector<Notice> alone{ahead, state(0, 3, "barrier #3"), state(1, 3, "barrier #3")};
  EXPECT_EQ(decide(alone, kThree, false)->cause, "rank 2 (c pid 3) did not do its part in time");
}

TEST(Verdict, RanksThatWaitForEachOtherBlameTheNeighbour) {
  const std::vector<Notice> notices{waits_for_message(0, 1), waits_for_message(1, 2), waits_for_message(2, 0)};
  EXPECT_EQ(decide(notices, kThree, false)->cause, "rank 1 (b pid 2) kept rank 0 (a pid 1) waiting");
}

TEST(Verdict, WhoIsLateBecauseItWaitsIsNotBlamed) {
  // 2 is at the collective already; 0 waits for a message of 1, which computes.
  Notice held_up = state(0, 3, "receive of 8 u8");
  held_up.peer = 1;
  const std::vector<Notice> notices{late(2, 4, 0, "all_reduce #4"), held_up, state(1, 3)};
  EXPECT_EQ(decide(notices, kThree, false)->cause, "rank 1 (b pid 2) has not called all_reduce #4");
}

TEST(Verdict, ThoseStuckInUnlikeOpsDisagree) {
  const std::vector<Notice> notices{late(0, 4, 1, "broadcast #4 from rank 0"), state(1, 4, "broadcast #4 from rank 1"),
                                    state(2, 4, "broadcast #4 from rank 0")};
  EXPECT_THAT(decide(notices, kThree, false)->cause, HasSubstr("disagree"));
}

TEST(Verdict, ABrokenConnectionWaitsForTheLossToBeAnnounced) {
  Notice broken = late(0, 4, 1, "barrier #4");
  broken.trouble = Trouble::Kind::kLostPeer;
  broken.text = "connection reset";
  const std::vector<Notice> notices{broken, state(1, 4, "barrier #4"), state(2, 4, "barrier #4")};
  EXPECT_FALSE(decide(notices, kThree, false).has_value());
  const auto verdict = decide(notices, kThree, true);
  EXPECT_THAT(verdict->ranks, ElementsAre(1));
  EXPECT_THAT(verdict->cause, HasSubstr("connection reset"));
}

}  // namespace
}  // namespace yoke::comm
