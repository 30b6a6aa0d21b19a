#include "yoke/engine/checkpoint/manifest.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/support/files.h"

namespace yoke::engine {
namespace {

using ::testing::HasSubstr;
using yoke::testing::expect_input_error;

const std::string kSum(64, 'a');

Manifest sample() {
  return {.meta = {.model = "lenet",
                   .cursor = {.epoch = 4294967295, .consumed = 60'000, .step = 12},
                   .seed = std::numeric_limits<std::uint64_t>::max(),
                   .updates = 11,
                   .train_loss = 0.1,
                   .batches = {{.step = 3, .gbs = 256, .lbs = 32}},
                   .loss_scale = LossScaleState{.factor = 32768, .good_steps = 17}},
          .files = {{.name = "weights.safetensors",
                     .holds = ManifestFile::Holds::kWeights,
                     .sums = {.bytes = 5'000'000'000, .header = kSum, .tensors = {{"b", kSum}, {"a.0 \"x\"", kSum}}}},
                    {.name = "optimizer.safetensors",
                     .holds = ManifestFile::Holds::kOptimizer,
                     .sums = {.bytes = 16, .header = kSum, .tensors = {}}}}};
}

std::string replaced(std::string text, const std::string& old, const std::string& now) {
  const auto at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), now);
}

TEST(Manifest, ReadsWhatItWrote) {
  const std::string text = to_json(sample());
  EXPECT_TRUE(check_seal(text, "manifest.json").ok());
  const auto read = parse_manifest(text, "manifest.json");
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(*read, sample());
}

TEST(Manifest, ReadsOneWithoutALossScale) {
  Manifest manifest = sample();
  manifest.meta.loss_scale.reset();
  const std::string text = to_json(manifest);
  EXPECT_EQ(text.find("loss_scale"), std::string::npos) << "as it was written before there was one";
  const auto read = parse_manifest(text, "manifest.json");
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(*read, manifest);
}

TEST(Manifest, ALossThatIsNotFiniteIsReadAsNaN) {
  Manifest manifest = sample();
  manifest.meta.train_loss = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(parse_manifest(to_json(manifest), "manifest.json")->meta.train_loss));
}

TEST(Manifest, TheSealFindsEveryFlippedBitAndEveryCut) {
  const std::string text = to_json(sample());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ 1 << bit);
      ASSERT_FALSE(check_seal(flipped, "manifest.json").ok()) << "byte " << i << ", bit " << bit;
    }
    ASSERT_FALSE(check_seal(text.substr(0, i), "manifest.json").ok()) << "cut to " << i;
  }
  ASSERT_FALSE(check_seal(text + "\n", "manifest.json").ok());
  expect_input_error(check_seal(text + " ", "manifest.json"), "damaged");
}

TEST(Manifest, RefusesWhatIsNoneWithLineAndField) {
  const std::string text = to_json(sample());
  const auto refuse = [&](const std::string& old, const std::string& now, const std::string& part) {
    SCOPED_TRACE(now);
    expect_input_error(parse_manifest(replaced(text, old, now), "manifest.json"), part);
  };
  refuse("yoke-checkpoint", "yoke-plan", "expected yoke-checkpoint");
  refuse("\"version\": 1", "\"version\": 2", "found version 2");
  refuse("\"18446744073709551615\"", "\"18446744073709551616\"", "expected a whole number below 2^64");
  refuse("\"18446744073709551615\"", "\"-1\"", "expected a whole number below 2^64");
  refuse("4294967295", "4294967296", "cursor.epoch");
  refuse("\"step\": 12", "\"step\": -12", "cursor.step");
  refuse("weights.safetensors", "../weights", "files[0].name");
  refuse("optimizer.safetensors", "weights.safetensors", "twice");
  refuse("\"holds\": \"weights\"", "\"holds\": \"weight\"", "did you mean `weights`");
  refuse("aaaa", "AAAA", "hexadecimal");
  refuse("aaaa", "aaa", "64 hexadecimal digits");
  refuse("32768.0", "0.0", "loss_scale.factor");
  refuse("\"good_steps\": 17", "\"good_steps\": -1", "loss_scale.good_steps");
  refuse("\"updates\"", "\"update\"", "`updates` is missing");
  refuse("\"updates\"", "\"more\": 1, \"updates\"", "unknown key");
  expect_input_error(parse_manifest("[1]", "manifest.json"), "expected a map");
}

}  // namespace
}  // namespace yoke::engine
