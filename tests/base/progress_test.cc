#include "yoke/base/progress.h"

#include <gmock/gmock.h>

#include <vector>

namespace yoke::base {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Output {
  ManualClock clock;
  std::vector<std::string> texts;
  Progress::Writer writer() {
    return [this](std::string_view text) { texts.emplace_back(text); };
  }
};

TEST(Progress, LogHasALineNowAndThen) {
  Output out;
  Progress progress({.label = "train", .total = 100, .style = ProgressStyle::kLog}, out.clock, out.writer());
  for (int step = 1; step <= 100; ++step) {
    out.clock.advance(milliseconds(250));
    progress.update(step, "loss 0.4");
  }
  progress.finish();
  EXPECT_THAT(out.texts, ElementsAre("train   1% 1/100 steps, 4.0 steps/s, 24.75 s left, loss 0.4\n",
                                     "train  41% 41/100 steps, 4.0 steps/s, 14.75 s left, loss 0.4\n",
                                     "train  81% 81/100 steps, 4.0 steps/s, 4.75 s left, loss 0.4\n",
                                     "train 100% 100/100 steps, 4.0 steps/s, took 25.00 s\n"));
}

TEST(Progress, TerminalRedrawsOneLine) {
  Output out;
  Progress progress({.label = "profile", .total = 4, .style = ProgressStyle::kTerminal, .columns = 60}, out.clock,
                    out.writer());
  out.clock.advance(seconds(1));
  progress.update(1);
  out.clock.advance(milliseconds(50));
  progress.update(2);  // too soon after the last one
  out.clock.advance(milliseconds(950));
  progress.update(3, std::string(100, 'x'));
  progress.finish();
  ASSERT_EQ(out.texts.size(), 3U);
  EXPECT_THAT(out.texts[0], HasSubstr("\rprofile [##......]  25% 1/4 steps, 1.0 steps/s, 3.00 s left\x1b[K"))
      << "the bar takes what room there is";
  EXPECT_LE(out.texts[1].size(), 60 + std::string("\r\x1b[K").size()) << "a long line would wrap";
  EXPECT_EQ(out.texts[2].back(), '\n');
}

TEST(Progress, UnknownTotalHasNoBar) {
  Output out;
  Progress progress({.label = "scan", .unit = "files"}, out.clock, out.writer());
  out.clock.advance(seconds(2));
  progress.update(10);
  EXPECT_THAT(out.texts, ElementsAre("scan 10 files, 5.0 files/s\n"));
}

TEST(Progress, WorkDoneBeforeCountsForTheBarOnly) {
  Output out;
  Progress progress({.label = "train", .total = 100, .start = 50}, out.clock, out.writer());
  out.clock.advance(seconds(10));
  progress.update(60);
  progress.set_total(120);
  out.clock.advance(seconds(10));
  progress.update(70);
  EXPECT_THAT(out.texts, ElementsAre("train  60% 60/100 steps, 1.0 steps/s, 40.00 s left\n",
                                     "train  58% 70/120 steps, 1.0 steps/s, 50.00 s left\n"));
}

TEST(Progress, ClearedLineIsDrawnAgain) {
  Output out;
  Progress progress({.label = "train", .style = ProgressStyle::kTerminal}, out.clock, out.writer());
  progress.clear();
  EXPECT_TRUE(out.texts.empty()) << "nothing was drawn";
  progress.update(1);
  progress.clear();
  progress.update(2);
  EXPECT_THAT(out.texts, ElementsAre("\rtrain 1 steps\x1b[K", "\r\x1b[K", "\rtrain 2 steps\x1b[K"));
}

TEST(Progress, FinishesOnce) {
  Output out;
  Progress progress({.label = "x", .total = 1}, out.clock, out.writer());
  progress.finish();
  progress.finish();
  EXPECT_EQ(out.texts.size(), 1U);
}

}  // namespace
}  // namespace yoke::base
