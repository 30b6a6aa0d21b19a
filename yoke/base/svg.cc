#include "yoke/base/svg.h"

#include <fmt/format.h>

namespace yoke::base {
namespace {

/// Text made safe inside an element. Control bytes are not allowed in XML at all and become blanks.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      default:
        safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return safe;
}

}  // namespace

void Svg::rectangle(double x, double y, double width, double height, std::string_view fill, std::string_view tip) {
  const std::string title = tip.empty() ? "" : fmt::format("<title>{}</title>", escaped(tip));
  body_ += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\">{}</rect>\n", x,
                       y, width, height, fill, title);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view stroke) {
  body_ += fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"{}\"/>\n", x1, y1, x2,
                       y2, stroke);
}

void Svg::text(double x, double y, std::string_view text, double size, Anchor anchor, std::string_view fill) {
  const char* where = anchor == Anchor::kStart ? "start" : anchor == Anchor::kMiddle ? "middle" : "end";
  body_ += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"{}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n", x,
                       y, size, where, fill, escaped(text));
}

std::string Svg::to_string() const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{2}</svg>\n",
      width_, height_, body_);
}

}  // namespace yoke::base
