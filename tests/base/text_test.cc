#include "yoke/base/text.h"

#include <gmock/gmock.h>

namespace yoke::base {
namespace {

TEST(Text, TrimsAndSplits) {
  EXPECT_EQ(trim("  a b \r\n"), "a b");
  EXPECT_EQ(trim(" \t"), "");
  EXPECT_THAT(split("a -- b -- ", " -- "), ::testing::ElementsAre("a", "b", ""));
  EXPECT_THAT(split("", ","), ::testing::ElementsAre(""));
}

TEST(Text, EditDistanceCountsSwapsOnce) {
  EXPECT_EQ(edit_distance("modle", "model"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("LR", "lr"), 0U);
}

TEST(Text, SuggestsOnlyWhatIsClose) {
  const std::vector<std::string> known{"model", "data", "batch"};
  EXPECT_EQ(did_you_mean("modle", known), ", did you mean `model`?");
  EXPECT_EQ(did_you_mean("elephant", known), "");
  const std::vector<std::string> from_a_file{std::string("\0layer", 6)};
  EXPECT_EQ(did_you_mean("layer", from_a_file).find('\0'), std::string::npos) << "names may come from any file";
  EXPECT_EQ(nearest_name(std::string(100'000, 'x'), known), "");
}

TEST(Text, JoinsForPeople) {
  EXPECT_EQ(join_words(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(join_words(std::vector<std::string>{"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(join_words(std::vector<std::string>{"a", "b", "c"}, "or"), "a, b or c");
}

TEST(Text, QuotesWithoutControlBytes) {
  EXPECT_EQ(quote("a\x1b[31m\n"), "`a\\x1b[31m\\x0a`");
  EXPECT_EQ(quote("abcdef", 3), "`abc...`");
  EXPECT_EQ(quote("abc", 3), "`abc`");
}

TEST(Text, QuotesKeepEveryScriptButNothingUnseen) {
  EXPECT_EQ(quote("größe 数"), "`größe 数`");
  EXPECT_EQ(quote("größe", 3), "`gr...`") << "half a character was cut";
  EXPECT_EQ(quote("a\xff\xc3"), "`a\\xff\\xc3`");
  EXPECT_EQ(quote("\u0085\u202e\ufeff"), "`\\xc2\\x85\\xe2\\x80\\xae\\xef\\xbb\\xbf`");
}

}  // namespace
}  // namespace yoke::base
