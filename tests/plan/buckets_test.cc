#include "yoke/plan/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/support/files.h"
#include "yoke/profile/jabas/profile_files.h"

namespace yoke::plan {
namespace {

using ::testing::ElementsAre;
using ::yoke::testing::expect_input_error;

std::vector<Parameter> parameters_of(const std::vector<std::int64_t>& sizes) {
  std::vector<Parameter> parameters;
  for (const std::int64_t size : sizes) parameters.push_back({"p" + std::to_string(parameters.size()), size});
  return parameters;
}

std::vector<std::int64_t> bytes_of(const std::vector<Bucket>& buckets) {
  std::vector<std::int64_t> bytes;
  for (const Bucket& bucket : buckets) bytes.push_back(bucket.bytes.count);
  return bytes;
}

/// Caps of 100 and 400 bytes: 25 and 100 elements of f32.
const BucketOptions kSmallCaps{.first_cap = {100}, .cap = {400}};

TEST(Buckets, ByHand) {
  // Backward: 5, 20 (100 bytes: reached) | 1, 60, 150 (844) | 90, 10 (400) | 30.
  const auto buckets = cut_into_buckets(parameters_of({30, 10, 90, 150, 60, 1, 20, 5}), kSmallCaps).value();
  EXPECT_THAT(bytes_of(buckets), ElementsAre(100, 844, 400, 120));
  // Sixteen f32 fill 64 bytes, so offsets are multiples of 16.
  EXPECT_THAT(buckets[0].slots, ElementsAre(BucketSlot{7, 0, 5}, BucketSlot{6, 16, 20}));
  EXPECT_EQ(buckets[0].elements, 48);
  EXPECT_THAT(buckets[1].slots, ElementsAre(BucketSlot{5, 0, 1}, BucketSlot{4, 16, 60}, BucketSlot{3, 80, 150}));
  EXPECT_EQ(buckets[1].elements, 240);
  EXPECT_THAT(buckets[2].slots, ElementsAre(BucketSlot{2, 0, 90}, BucketSlot{1, 96, 10}));
  EXPECT_EQ(buckets[2].elements, 112);
  EXPECT_THAT(buckets[3].slots, ElementsAre(BucketSlot{0, 0, 30}));
}

TEST(Buckets, AParameterWithoutElementsStaysWithItsNeighbour) {
  const auto buckets = cut_into_buckets(parameters_of({0, 200, 0, 300, 0}), kSmallCaps).value();
  EXPECT_THAT(bytes_of(buckets), ElementsAre(1200, 800));
  EXPECT_THAT(buckets[0].slots, ElementsAre(BucketSlot{4, 0, 0}, BucketSlot{3, 0, 300}, BucketSlot{2, 304, 0}));
  EXPECT_THAT(buckets[1].slots, ElementsAre(BucketSlot{1, 0, 200}, BucketSlot{0, 208, 0}));
}

TEST(Buckets, TheDefaultsAreOneAndTwentyFiveMebibytesOfF32) {
  // 2^18 f32 are 1 MiB.
  const std::int64_t mebibyte = 1 << 18;
  const auto sizes =
      to_profile(cut_into_buckets(parameters_of({mebibyte, 20 * mebibyte, 5 * mebibyte, mebibyte})).value());
  EXPECT_THAT(sizes.mebibytes, ElementsAre(1, 25, 1));
}

/// The parameters of torchvision's ResNet-50 in forward order.
std::vector<Parameter> resnet50() {
  std::vector<Parameter> parameters;
  const auto convolution = [&](const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel) {
    parameters.push_back({name + ".weight", in * out * kernel * kernel});
    parameters.push_back({name + ".norm.weight", out});
    parameters.push_back({name + ".norm.bias", out});
  };
  convolution("stem", 3, 64, 7);
  std::int64_t in = 64;
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t width = 64 << stage;
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string name = std::to_string(stage) + "." + std::to_string(block);
      convolution(name + ".1", in, width, 1);
      convolution(name + ".2", width, width, 3);
      convolution(name + ".3", width, 4 * width, 1);
      if (block == 0) convolution(name + ".shortcut", in, 4 * width, 1);
      in = 4 * width;
    }
  }
  parameters.push_back({"classifier.weight", 2048 * 1000});
  parameters.push_back({"classifier.bias", 1000});
  return parameters;
}

TEST(Buckets, ResNet50AsPyTorchCutIt) {
  YOKE_NEEDS_SHARED_DATA();
  const std::string path =
      yoke::testing::shared_data() + "/iidp-quickstart/bucket_profile_data/resnet50_bucket_size_profile.json";
  const auto recorded = profile::jabas::parse_bucket_file(yoke::testing::read_text(path), path).value().buckets;
  const auto buckets = cut_into_buckets(resnet50()).value();
  const auto ours = to_profile(buckets);
  ASSERT_EQ(ours.mebibytes.size(), recorded.mebibytes.size());
  // The recorded sizes add up to 0.15 MiB less than the model has: not all small parameters were counted.
  for (std::size_t i = 0; i < ours.mebibytes.size(); ++i) {
    EXPECT_NEAR(ours.mebibytes[i], recorded.mebibytes[i], 0.01 * recorded.mebibytes[i]) << i;
  }
}

void expect_properties(const std::vector<Parameter>& parameters, const BucketOptions& options,
                       const std::vector<Bucket>& buckets) {
  std::size_t next = parameters.size();  // backward: each slot is the parameter before
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const Bucket& bucket = buckets[b];
    std::int64_t bytes = 0;
    std::int64_t end = 0;
    std::int64_t last_bytes = 0;
    for (const BucketSlot& slot : bucket.slots) {
      ASSERT_EQ(slot.parameter, --next);
      ASSERT_EQ(slot.elements, parameters[next].elements);
      ASSERT_EQ(slot.offset * options.element_bytes % kBucketAlignment, 0);
      ASSERT_GE(slot.offset, end) << "overlaps the slot before";
      ASSERT_LT((slot.offset - end) * options.element_bytes, kBucketAlignment) << "a needless gap";
      end = slot.offset + slot.elements;
      bytes += slot.elements * options.element_bytes;
      if (slot.elements > 0) {
        last_bytes = slot.elements * options.element_bytes;
      }
    }
    ASSERT_EQ(bucket.bytes.count, bytes);
    ASSERT_GT(bytes, 0);
    ASSERT_GE(bucket.elements, end);
    ASSERT_EQ(bucket.elements * options.element_bytes % kBucketAlignment, 0);
    ASSERT_LT((bucket.elements - end) * options.element_bytes, kBucketAlignment);

    const std::int64_t cap = (b == 0 ? options.first_cap : options.cap).count;
    ASSERT_LT(bytes - last_bytes, cap) << "went on after the cap was reached";
    if (b + 1 < buckets.size()) {
      ASSERT_GE(bytes, cap);
    }
  }
  ASSERT_EQ(next, 0U) << "a parameter is missing";
}

TEST(Buckets, PropertiesOfRandomLists) {
  std::mt19937 random(1);
  const auto uniform = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  for (int i = 0; i < 3000; ++i) {
    SCOPED_TRACE(i);
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(uniform(1, 60)));
    for (std::int64_t& size : sizes) size = uniform(0, 3) == 0 ? uniform(0, 500) : uniform(0, 40);
    sizes[random() % sizes.size()] = uniform(1, 10);
    const std::vector<Parameter> parameters = parameters_of(sizes);
    const BucketOptions options{
        .first_cap = {uniform(1, 300)}, .cap = {uniform(1, 1200)}, .element_bytes = std::int64_t{1} << uniform(0, 3)};
    const auto buckets = cut_into_buckets(parameters, options).value();
    ASSERT_NO_FATAL_FAILURE(expect_properties(parameters, options, buckets));
    ASSERT_EQ(cut_into_buckets(parameters, options).value(), buckets);
  }
}

TEST(Buckets, RefusesWhatMakesNoSense) {
  const auto one = parameters_of({1});
  expect_input_error(cut_into_buckets(one, {.first_cap = {0}}), "first_cap: found a bucket cap of 0 bytes");
  expect_input_error(cut_into_buckets(one, {.cap = {0}}), "cap: found a bucket cap of 0 bytes");
  expect_input_error(cut_into_buckets(one, {.cap = {-5}}), "found a bucket cap of -5 bytes, expected at least 1");
  expect_input_error(cut_into_buckets(one, {.element_bytes = 3}), "found elements of 3 bytes");
  expect_input_error(cut_into_buckets(one, {.element_bytes = 0}), "found elements of 0 bytes");
  expect_input_error(cut_into_buckets({}), "found 0 parameters without any element");
  expect_input_error(cut_into_buckets(parameters_of({0, 0})), "found 2 parameters without any element");
  expect_input_error(cut_into_buckets(parameters_of({1, -1})), "parameters[1] `p1`: found -1 elements");
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  expect_input_error(cut_into_buckets(parameters_of({huge})), "more than 2^62 bytes");
  expect_input_error(cut_into_buckets(parameters_of({huge / 16, huge / 16})), "parameters[1] `p1`");
}

}  // namespace
}  // namespace yoke::plan
