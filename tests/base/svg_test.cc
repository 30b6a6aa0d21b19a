#include "yoke/base/svg.h"

#include <gmock/gmock.h>

namespace yoke::base {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Svg, DrawsOnACanvasOfItsSize) {
  Svg svg(200, 100);
  svg.rectangle(1, 2, 3.5, 4, "#abc", "a tip");
  svg.line(0, 0, 10, 10, "black");
  svg.text(5, 6, "hello", 12, Svg::Anchor::kEnd);
  const std::string text = svg.to_string();
  EXPECT_THAT(text, HasSubstr("width=\"200\" height=\"100\""));
  EXPECT_THAT(text, HasSubstr("<title>a tip</title>"));
  EXPECT_THAT(text, HasSubstr("text-anchor=\"end\""));
}

TEST(Svg, TextCannotBreakOut) {
  Svg svg(10, 10);
  svg.text(0, 0, "</text><script>&\x01");
  EXPECT_THAT(svg.to_string(), Not(HasSubstr("<script>")));
  EXPECT_THAT(svg.to_string(), HasSubstr("&lt;script&gt;&amp; "));
}

}  // namespace
}  // namespace yoke::base
