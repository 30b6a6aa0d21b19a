// The header ahead of every flow between stages: what one side writes the other reads, and nothing else passes for one.
#include "yoke/engine/flow_header.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>

namespace yoke::engine {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kBytes = 4096;

FlowHeader sample() {
  return {.worker = 41,
          .payload = plan::Payload::kGradients,
          .entries = {{.name = "x", .type = 5, .shape = {3, 0, 5}, .wants_gradient = true},
                      {.name = "", .type = 127, .shape = {}},
                      {.name = "no gradient", .defined = false}}};
}

std::vector<std::byte> written(const FlowHeader& header) {
  std::vector<std::byte> bytes(kBytes);
  EXPECT_TRUE(encode(header, bytes).ok());
  return bytes;
}

void put(std::vector<std::byte>& bytes, std::size_t number, std::int64_t value) {
  std::memcpy(bytes.data() + number * sizeof(value), &value, sizeof(value));
}

TEST(FlowHeader, ComesBackAsItWas) {
  for (const auto& header : {sample(), FlowHeader{}}) {
    const auto back = decode_flow_header(written(header));
    ASSERT_TRUE(back.ok()) << back.error().to_string();
    EXPECT_EQ(*back, header);
  }
}

TEST(FlowHeader, GarbageIsAPeersFault) {
  const auto refused = [](const std::vector<std::byte>& bytes) {
    const auto header = decode_flow_header(bytes);
    return !header.ok() && header.error().kind == base::ErrorKind::kPeer;
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused(std::vector<std::byte>(kBytes)));
  EXPECT_TRUE(refused(std::vector<std::byte>(kBytes, std::byte{0xff})));
  // In the order of the numbers: magic, worker, payload, entries, length of the first name.
  for (const std::size_t number : {0UL, 2UL, 3UL, 4UL}) {
    for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{1} << 40, INT64_MAX, INT64_MIN}) {
      auto bytes = written(sample());
      put(bytes, number, value);
      EXPECT_TRUE(refused(bytes)) << number << " is " << value;
    }
  }
  // A shape whose product would not fit.
  auto huge = sample();
  huge.entries[0].shape = {std::int64_t{1} << 39, std::int64_t{1} << 39};
  EXPECT_TRUE(refused(written(huge)));
  huge.entries[0].shape = {-1};
  EXPECT_TRUE(refused(written(huge)));
  huge.entries[0].shape.assign(17, 1);
  EXPECT_TRUE(refused(written(huge)));
}

TEST(FlowHeader, EveryTruncationIsNoticed) {
  const auto bytes = written(sample());
  // What was written: 4 numbers, and for each tensor 5 numbers, its name and its sizes.
  const std::size_t length = 8 * (4 + 3 * 5 + 3) + std::strlen("x") + std::strlen("no gradient");
  EXPECT_TRUE(decode_flow_header(std::span(bytes).first(length)).ok());
  for (std::size_t size = 0; size < length; ++size) {
    EXPECT_FALSE(decode_flow_header(std::span(bytes).first(size)).ok()) << size << " of " << length << " bytes";
  }
}

TEST(FlowHeader, MayFillAllBytes) {
  std::vector<std::byte> bytes(8 * 4);
  ASSERT_TRUE(encode({}, bytes).ok());
  EXPECT_EQ(decode_flow_header(bytes).value(), FlowHeader{});
  EXPECT_FALSE(encode({}, std::span(bytes).first(bytes.size() - 1)).ok());
}

TEST(FlowHeader, MoreTensorsThanFitAreRefused) {
  FlowHeader header;
  std::vector<std::byte> bytes(kBytes);
  while (encode(header, bytes).ok()) {
    EXPECT_EQ(decode_flow_header(bytes).value(), header);
    header.entries.push_back({.name = fmt::format("tensor {}", header.entries.size()), .shape = {4, 4}});
    ASSERT_LT(header.entries.size(), kBytes);
  }
  const auto refused = encode(header, bytes);
  EXPECT_EQ(refused.error().kind, base::ErrorKind::kInput);
  EXPECT_THAT(refused.error().message, HasSubstr(fmt::format("{} tensors cross", header.entries.size())));
}

}  // namespace
}  // namespace yoke::engine
