#include "yoke/base/document.h"

#include "tests/support/files.h"

namespace yoke::base {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using yoke::testing::expect_input_error;

using Parse = Result<Document> (*)(std::string_view, std::string);

/// What holds for JSON holds for YAML, which is nearly a superset.
class EitherSyntax : public ::testing::TestWithParam<Parse> {};
INSTANTIATE_TEST_SUITE_P(Document, EitherSyntax, ::testing::Values(&parse_json, &parse_yaml));

TEST_P(EitherSyntax, EveryValueKnowsItsLine) {
  const auto document =
      GetParam()("{\n\"a\": 1,\n\n\"b\": [true, null,\n\"x\"\n],\n\"c\": {\n\"d\": -2.5e3\n}\n}", "f");
  ASSERT_TRUE(document.ok()) << document.error().to_string();
  const Value& root = document->root;
  ASSERT_EQ(root.kind, Value::Kind::kMap);
  EXPECT_EQ(root.line, 1);
  ASSERT_EQ(root.entries.size(), 3U);
  EXPECT_EQ(root.entries[0].value.line, 2);
  const Value& list = root.entries[1].value;
  EXPECT_EQ(list.line, 4);
  ASSERT_EQ(list.items.size(), 3U);
  EXPECT_EQ(list.items[0].kind, Value::Kind::kBool);
  EXPECT_EQ(list.items[1].kind, Value::Kind::kNull);
  EXPECT_EQ(list.items[2].kind, Value::Kind::kString);
  EXPECT_EQ(list.items[2].line, 5);
  const Value& number = root.entries[2].value.entries[0].value;
  EXPECT_EQ(number.kind, Value::Kind::kNumber);
  EXPECT_EQ(number.text, "-2.5e3");
  EXPECT_EQ(number.line, 8);
}

TEST_P(EitherSyntax, NumbersKeepEveryDigit) {
  const auto document = GetParam()("[9223372036854775807, 0.1000000000000000055511151231257827]", "f");
  ASSERT_TRUE(document.ok()) << document.error().to_string();
  Reader reader(*document);
  auto items = reader.root().items();
  EXPECT_EQ(items[0].integer(), 9223372036854775807);
  EXPECT_EQ(items[1].number(), 0.1);
}

TEST_P(EitherSyntax, BadTextIsOneErrorWithItsLine) {
  expect_input_error(GetParam()("", "f"), "f: the file is empty");
  expect_input_error(GetParam()(" \n\t\n", "f"), "f: the file is empty");
  expect_input_error(GetParam()("{\"a\": 1,\n\"a\": 2}", "f"), "f:2: the key `a` is given twice");
  expect_input_error(GetParam()("{\"a\": [1,\n\"b}", "f"), "f:2: not valid");
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  expect_input_error(GetParam()(deep, "f"), "f:1: nested deeper than 64 levels");
  expect_input_error(GetParam()("[\n\"\xff\"]", "f"), "f:2: ");
}

TEST(Json, NotANumberIsNoJson) {
  expect_input_error(parse_json("{\"a\":\nNaN}", "f"), "f:2: not valid JSON");
  expect_input_error(parse_json("[1e999]", "f"), "f:1: the number `1e999` is too large");
  expect_input_error(parse_json("[1] [2]", "f"), "f:1: not valid JSON");
}

TEST(Json, TooManyValuesAreRefused) {
  std::string many = "[0";
  for (std::int64_t i = 0; i < kMaxDocumentValues; ++i) many += ",0";
  expect_input_error(parse_json(many + "]", "f"), "found more than 2000000 values");
}

TEST(Json, AByteOrderMarkIsSkipped) {
  EXPECT_TRUE(parse_json("\xEF\xBB\xBF[1]", "f").ok());
}

TEST(Yaml, PlainScalarsHaveTheirTypes) {
  const auto document =
      parse_yaml("[1, 1.5, .5, 1e3, true, False, ~, null, text, '1', \"true\", .nan, inf, 25MB]", "f");
  ASSERT_TRUE(document.ok()) << document.error().to_string();
  std::string kinds;
  for (const auto& item : document->root.items) kinds += "0bn\"[{"[static_cast<int>(item.kind)];
  EXPECT_EQ(kinds, "nnnnbb00\"\"\"\"\"\"");
}

TEST(Yaml, LongTextIsRefused) {
  expect_input_error(parse_yaml(std::string(kMaxYamlBytes + 1, 'a'), "f"), "f: found 8388609 bytes of YAML");
}

TEST(Yaml, AnOpenBracketIsSaid) {
  expect_input_error(parse_yaml("a: [1, {b: 2}", "f"),
                     "f:1: found a list or map as a key, expected a name; is a bracket");
}

TEST(Yaml, WhatNoFormatNeedsIsRefused) {
  expect_input_error(parse_yaml("a: &x 1\nb: 2", "f"), "f:1: found an anchor");
  expect_input_error(parse_yaml("a: 1\n---\nb: 2", "f"), "found a second document");
  expect_input_error(parse_yaml("? [a]\n: 1", "f"), "f:1: found a list or map as a key");
  expect_input_error(parse_yaml("a: 1\n: 2", "f"), "f:2: ");
  expect_input_error(parse_yaml("a: 1\n\tb: 2", "f"), "f:2: ");
}

TEST(Reader, ReadsFieldsAndNamesPlaces) {
  const auto document = parse_yaml("name: x\nsize: 16GiB\nrate: 10Gbit/s\nwait: 300ms\nlist: [{n: 3}]\n", "f");
  ASSERT_TRUE(document.ok());
  Reader reader(*document);
  View root = reader.root();
  EXPECT_EQ(root.field("name").text(), "x");
  EXPECT_EQ(root.field("size").bytes(), Bytes{16LL << 30});
  EXPECT_EQ(root.field("rate").bandwidth(), Bandwidth{1.25e9});
  EXPECT_EQ(root.field("wait").duration(), std::chrono::milliseconds(300));
  View item = root.field("list").items().at(0);
  EXPECT_EQ(item.field("n").integer(kCount), 3);
  EXPECT_EQ(item.field("n").where(), (Where{"f", 5, "list[0].n"}));
  EXPECT_EQ(item.integer_or("absent", 7), 7);
  EXPECT_EQ(root.text_or("absent", "y"), "y");
  root.done();
  EXPECT_TRUE(reader.ok());
}

TEST(Reader, TheFirstFaultStaysAndTheRestIsSilent) {
  const auto document = parse_yaml("a: 1\nb: x\n", "f");
  ASSERT_TRUE(document.ok());
  Reader reader(*document);
  View root = reader.root();
  EXPECT_EQ(root.field("a").text(), "");
  EXPECT_EQ(root.field("b").number(), 0);
  EXPECT_EQ(root.field("gone").field("deeper").integer(), 0);
  EXPECT_EQ(reader.error().to_string(), "f:1: a: found `1`, expected a text");
}

std::string fault(const std::string& yaml, const std::function<void(View)>& read) {
  const auto document = parse_yaml(yaml, "f");
  EXPECT_TRUE(document.ok());
  Reader reader(*document);
  read(reader.root());
  return reader.ok() ? "" : reader.error().to_string();
}

TEST(Reader, MessagesSayFoundAndExpected) {
  EXPECT_EQ(fault("a: 3", [](View v) { v.field("b"); }), "f:1: required key `b` is missing; found only `a`");
  EXPECT_EQ(fault("speed: 3", [](View v) { v.find("speed"), v.find("sped"), v.done(); }), "");
  EXPECT_EQ(fault("sped: 3", [](View v) { v.find("speed"), v.done(); }),
            "f:1: unknown key `sped`, did you mean `speed`?");
  EXPECT_EQ(fault("xyz: 3", [](View v) { v.find("speed"), v.done(); }), "f:1: unknown key `xyz`; known are speed");
  EXPECT_EQ(fault("a: 2", [](View v) { v.field("a").number({.least = 0, .most = 1}); }),
            "f:1: a: found `2`, expected a number from 0 to 1");
  EXPECT_EQ(fault("a: 2.5", [](View v) { v.field("a").integer(); }), "f:1: a: found `2.5`, expected a whole number");
  EXPECT_EQ(fault("a: b",
                  [](View v) {
                    v.field("a").one_of({"c", "d"});
                  }),
            "f:1: a: found `b`, expected c or d, did you mean `c`?");
}

TEST(ExpectFormat, RefusesOtherFormatsAndNewerVersions) {
  const auto read = [](View v) { expect_format(v, "yoke-x", 2); };
  EXPECT_EQ(fault("format: yoke-x\nversion: 2", read), "");
  EXPECT_EQ(fault("format: yoke-x\nversion: 1", read), "");
  EXPECT_EQ(fault("other: 1", read), "");
  EXPECT_THAT(fault("format: yoke-y", read), HasSubstr("f:1: format: found `yoke-y`, expected yoke-x"));
  EXPECT_THAT(fault("version: 3", read), HasSubstr("f:1: version: found version 3 of yoke-x, expected at most 2"));
  EXPECT_THAT(fault("version: 0", read), HasSubstr("f:1: version: found `0`"));
  EXPECT_THAT(fault("version: new", read), HasSubstr("f:1: version: found the text `new`"));
}

TEST(LoadDocument, ChoosesTheSyntaxByName) {
  const yoke::testing::TempFolder folder;
  EXPECT_TRUE(load_document(folder.write("a.yaml", "a: 1")).ok());
  EXPECT_TRUE(load_document(folder.write("a.json", "{\"a\": 1}")).ok());
  expect_input_error(load_document(folder.write("b.json", "a: 1")), "b.json:1: not valid JSON");
  expect_input_error(load_document(folder.file("gone")), "gone: cannot open the file");
}

}  // namespace
}  // namespace yoke::base
