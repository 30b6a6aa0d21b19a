#include "yoke/base/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace yoke::base {
namespace {

using Use = Sha256::Use;

class EitherSha256 : public ::testing::TestWithParam<Use> {
 protected:
  static std::string sum(const std::vector<std::string>& pieces) {
    Sha256 sum(GetParam());
    for (const auto& piece : pieces) sum.update(piece);
    return sum.finish();
  }
};

// The examples that NIST publishes with the standard, and those of its long-message kind.
TEST_P(EitherSha256, PublishedVectors) {
  EXPECT_EQ(sum({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sum({"abc"}), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sum({"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"}),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(
      sum({"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrs"
           "tnopqrstu"}),
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sum(std::vector<std::string>(1000, std::string(1000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_P(EitherSha256, HowTheBytesAreCutDoesNotMatter) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i * 7 + i / 256);
  const std::string whole = sum({bytes});
  for (std::size_t first = 0; first < 200; ++first) {
    EXPECT_EQ(sum({bytes.substr(0, first), bytes.substr(first, 64), bytes.substr(first + 64)}), whole) << first;
  }
}

INSTANTIATE_TEST_SUITE_P(Sha256, EitherSha256, ::testing::Values(Use::kFastest, Use::kPortable),
                         [](const auto& param_info) {
                           return param_info.param == Use::kFastest ? "fastest" : "portable";
                         });

// Every length around the block size, where the padding differs.
TEST(Sha256, BothWaysAgree) {
  std::string bytes;
  for (int length = 0; length < 300; ++length) {
    Sha256 portable(Use::kPortable);
    portable.update(bytes);
    EXPECT_EQ(portable.finish(), sha256(bytes)) << length;
    bytes += static_cast<char>(length * 31);
  }
}

}  // namespace
}  // namespace yoke::base
