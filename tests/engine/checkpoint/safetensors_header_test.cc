#include "yoke/engine/checkpoint/safetensors_header.h"

#include <gmock/gmock.h>

#include "tests/support/files.h"

namespace yoke::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using yoke::testing::expect_input_error;

std::string entry(const std::string& type, const std::string& shape, const std::string& place) {
  return "{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":" + place + "}";
}

SafetensorsHeader every_type() {
  SafetensorsHeader header{.metadata = {{"format", "pt"}, {"note", "quote \" and \n line"}}};
  for (int type = 0; type <= static_cast<int>(TensorType::kBool); ++type) {
    header.tensors.push_back(
        {.name = "t" + std::to_string(type), .type = static_cast<TensorType>(type), .shape = {type + 1, 3}});
  }
  header.tensors.push_back({.name = "scalar", .type = TensorType::kF64});
  header.tensors.push_back({.name = "empty", .type = TensorType::kF32, .shape = {4, 0}});
  header.tensors.push_back({.name = "größe", .type = TensorType::kU8, .shape = {1}});
  return header;
}

TEST(SafetensorsHeader, ReadsWhatItWrote) {
  SafetensorsHeader header = every_type();
  const auto order = place_tensors(header);
  std::int64_t end = 0;
  for (const std::size_t i : order) {
    EXPECT_EQ(header.tensors[i].begin, end);
    EXPECT_EQ(header.tensors[i].begin % bytes_of(header.tensors[i].type), 0) << "not aligned";
    end = header.tensors[i].end;
  }
  const std::string head = *encode_header(header, "file");
  EXPECT_EQ(head.size() % 8, 0U);
  const auto size = static_cast<std::int64_t>(head.size()) + end;
  EXPECT_EQ(*read_header_length(head, size, "file"), static_cast<std::int64_t>(head.size()) - kLengthBytes);
  EXPECT_EQ(*parse_header(std::string_view(head).substr(kLengthBytes), end, "file"), header);
}

TEST(SafetensorsHeader, OfNoTensors) {
  SafetensorsHeader header;
  EXPECT_THAT(place_tensors(header), ElementsAre());
  EXPECT_EQ(*encode_header(header, "file"), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_EQ(*parse_header("{}", 0, "file"), header);
}

TEST(SafetensorsHeader, RefusesLengthsThatDoNotFitTheFile) {
  const std::string eight("\x08\0\0\0\0\0\0\0", 8);
  expect_input_error(read_header_length(eight, 15, "x.safetensors"), "found a header of 8 bytes, expected at most 7");
  expect_input_error(read_header_length(eight.substr(0, 7), 7, "x.safetensors"), "found 7 bytes");
  expect_input_error(read_header_length(std::string(8, '\xff'), 100, "x.safetensors"), "18446744073709551615");
  const std::string huge("\0\0\0\x05\0\0\0\0", 8);
  expect_input_error(read_header_length(huge, std::int64_t{1} << 40, "x.safetensors"), "expected at most 67108864");
}

TEST(SafetensorsHeader, RefusesWhatDoesNotDescribeTheBytes) {
  struct Case {
    std::string text;
    std::int64_t data_bytes;
    std::string part;
  };
  const std::string x = entry("F32", "[2]", "[0,8]");
  const Case cases[] = {
      {"{\"x\":" + entry("F32", "[3]", "[0,8]") + "}", 8, "expected 12 bytes for F32 [3]"},
      {"{\"x\":" + entry("F32", "[2]", "[8,0]") + "}", 8, "found bytes 8 to 0"},
      {"{\"x\":" + entry("F32", "[2]", "[-8,0]") + "}", 8, "expected a whole number >= 0"},
      {"{\"x\":" + entry("F32", "[-2]", "[0,8]") + "}", 8, "expected a whole number >= 0"},
      {"{\"x\":" + entry("F31", "[2]", "[0,8]") + "}", 8, "did you mean `F32`"},
      {"{\"x\":" + entry("F32", "2", "[0,8]") + "}", 8, "expected a list"},
      {"{\"x\":" + entry("F32", "[2]", "[0,8,9]") + "}", 8, "found 3 numbers, expected 2"},
      {"{\"x\":" + entry("F32", "[2]", "[0]") + "}", 8, "found 1 numbers, expected 2"},
      {"{\"x\":" + entry("F32", "[2]", "[0,99999999999999999999]") + "}", 8, "expected a whole number"},
      {"{\"x\":" + entry("F32", "[4611686018427387904,4611686018427387904]", "[0,8]") + "}", 8, "too large"},
      {"{\"x\":" + entry("F32", "[4611686018427387904,4611686018427387904,0]", "[0,0]") + "}", 0, "too large"},
      {"{\"x\":" + x + ",\"y\":" + entry("U8", "[4]", "[4,8]") + "}", 8, "may not overlap"},
      {"{\"x\":" + x + ",\"y\":" + x + "}", 8, "may not overlap"},
      {"{\"x\":" + x + ",\"y\":" + entry("U8", "[4]", "[9,13]") + "}", 13, "begins at byte 9, expected 8"},
      {"{\"x\":" + entry("F32", "[2]", "[1,9]") + "}", 9, "begins at byte 1, expected 0"},
      {"{\"x\":" + x + "}", 7, "cut short"},
      {"{\"x\":" + x + "}", 9, "found 9 bytes of tensors, but its header describes 8"},
      {"{\"x\":" + x + ",\"x\":" + x + "}", 8, "x"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "`data_offsets` is missing"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "expected a text"},
      {"[]", 0, "expected a map"},
      {"{", 0, "not valid JSON"},
      {"", 0, "empty"},
  };
  for (const auto& [text, data_bytes, part] : cases) {
    SCOPED_TRACE(text);
    expect_input_error(parse_header(text, data_bytes, "x.safetensors"), part);
  }
  std::string dimensions = "1";
  for (int i = 0; i < 64; ++i) dimensions += ",1";
  expect_input_error(parse_header("{\"x\":" + entry("U8", "[" + dimensions + "]", "[0,1]") + "}", 1, "x.safetensors"),
                     "found 65 dimensions");
}

TEST(SafetensorsHeader, RefusesNamesThatTheFormatCannotHold) {
  const auto names = [](std::vector<std::string> all) {
    SafetensorsHeader header;
    for (auto& name : all) header.tensors.push_back({.name = std::move(name)});
    return encode_header(header, "x.safetensors");
  };
  EXPECT_TRUE(names({"a", ""}).ok());
  expect_input_error(names({"a", "b", "a"}), "two of that name");
  expect_input_error(names({"__metadata__"}), "uses that name");
  expect_input_error(names({"\xff"}), "not UTF-8");
}

}  // namespace
}  // namespace yoke::engine
