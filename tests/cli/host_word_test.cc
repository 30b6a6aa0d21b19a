// What hosts say to each other: it comes back as it was said, and nothing else passes for it.
#include "yoke/cli/host_word.h"

#include <gtest/gtest.h>

namespace yoke::cli {
namespace {

TEST(HostWord, ComesBackAsItWas) {
  for (const auto& word : {HostWord{.rank = 1, .phase = "files", .text = "a\n[ ]\n"},
                           HostWord{.kind = HostWord::Kind::kFailed, .phase = "two words", .text = "why"},
                           HostWord{.rank = 2, .kind = HostWord::Kind::kLost}}) {
    EXPECT_EQ(decode_host_word(encode(word), 3), word) << encode(word);
  }
}

TEST(HostWord, NothingElsePassesForOne) {
  for (const char* entry : {"", "\n", "0 +files", "0\n +files\n", "0 \n", "+files\n", "x +files\n", "-1 +files\n",
                            "3 +files\n", "0 ?files\n", "99999999999999999999 +files\n"}) {
    EXPECT_FALSE(decode_host_word(entry, 3).has_value()) << entry;
  }
}

}  // namespace
}  // namespace yoke::cli
