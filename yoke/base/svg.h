// A minimal SVG writer for the pictures Yoke draws: rectangles, lines and text on a canvas. Coordinates are pixels from
// the upper left corner. The output needs nothing from outside and opens in any browser.
#pragma once

#include <string>
#include <string_view>

namespace yoke::base {

class Svg {
 public:
  enum class Anchor { kStart, kMiddle, kEnd };

  Svg(double width, double height) : width_(width), height_(height) {}

  /// `tip` shows when the pointer rests on the rectangle; empty for none.
  void rectangle(double x, double y, double width, double height, std::string_view fill, std::string_view tip = {});
  void line(double x1, double y1, double x2, double y2, std::string_view stroke);
  void text(double x, double y, std::string_view text, double size = 12, Anchor anchor = Anchor::kStart,
            std::string_view fill = "#222");

  std::string to_string() const;

 private:
  double width_;
  double height_;
  std::string body_;
};

}  // namespace yoke::base
