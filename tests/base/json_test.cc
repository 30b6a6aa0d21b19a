#include "yoke/base/json.h"

#include <gmock/gmock.h>

#include <limits>

#include "yoke/base/document.h"
#include "yoke/base/error.h"

namespace yoke::base {
namespace {

TEST(Json, WritesEveryKindOfValue) {
  const Json json{{"int", 1},
                  {"big", std::int64_t{1} << 62},
                  {"double", 2.0},
                  {"small", 1e-7},
                  {"text", "a\"b"},
                  {"yes", true},
                  {"none", Json()},
                  {"list", std::vector<int>{1, 2}},
                  {"empty", Json::array()},
                  {"inner", {{"k", "v"}}}};
  EXPECT_EQ(json.dump(),
            R"({"int":1,"big":4611686018427387904,"double":2.0,"small":1e-07,"text":"a\"b","yes":true,"none":null,)"
            R"("list":[1,2],"empty":[],"inner":{"k":"v"}})");
}

TEST(Json, IndentsForPeople) {
  Json json;
  json["a"].push_back(1);
  json["a"].push_back({{"b", 2}});
  json["c"] = Json::object();
  EXPECT_EQ(json.dump(1), "{\n \"a\": [\n  1,\n  {\n   \"b\": 2\n  }\n ],\n \"c\": {}\n}");
}

TEST(Json, WhateverTheTextItParses) {
  for (const std::string& text : {std::string("\xff\xfe"), std::string("\0\x01\x1f", 3), std::string("\xe2\x82"),
                                 std::string("tab\t nl\n \\ \" \xe2\x82\xac")}) {
    const auto document = parse_json(Json{{"t", text}}.dump(), "x");
    ASSERT_TRUE(document.ok()) << document.error().to_string();
  }
  EXPECT_EQ(json_text("\xe2\x82\xac"), "\"\xe2\x82\xac\"");
  EXPECT_EQ(json_text("a\xff"), "\"a\xEF\xBF\xBD\"");
}

TEST(Json, NumbersThatAreNoNumbersAreNull) {
  EXPECT_EQ(Json(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
}

TEST(Json, RefusesAMemberOfAnArray) {
  Json json = Json::array();
  EXPECT_THROW(json["key"], Failure);
  EXPECT_THROW(Json(1).push_back(2), Failure);
}

}  // namespace
}  // namespace yoke::base
