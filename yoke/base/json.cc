#include "yoke/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "yoke/base/error.h"
#include "yoke/base/text.h"

namespace yoke::base {

std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    for (const char c : text.substr(0, valid)) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        quoted += {'\\', c};
      } else if (c == '\n') {
        quoted += "\\n";
      } else if (c == '\t') {
        quoted += "\\t";
      } else if (byte < 0x20) {
        quoted += fmt::format("\\u{:04x}", byte);
      } else {
        quoted += c;
      }
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    quoted += "\xEF\xBF\xBD";
    text.remove_prefix(1);
  }
  return quoted + '"';
}

Json::Json(double value) {
  if (!std::isfinite(value)) return;
  text_ = fmt::format("{}", value);
  if (text_.find_first_of(".e") == std::string::npos) text_ += ".0";
}

Json::Json(std::string_view value) : text_(json_text(value)) {}

Json::Json(std::initializer_list<Member> members) : kind_(Kind::kObject) {
  for (const auto& [key, value] : members) (*this)[key] = value;
}

Json Json::array() {
  Json json;
  json.kind_ = Kind::kArray;
  return json;
}

Json Json::object() {
  Json json;
  json.kind_ = Kind::kObject;
  return json;
}

Json& Json::operator[](std::string_view key) {
  if (kind_ == Kind::kScalar && text_ == "null") kind_ = Kind::kObject;
  require(kind_ == Kind::kObject, "a member of a JSON value that is no object");
  const auto found = std::find(keys_.begin(), keys_.end(), key);
  if (found != keys_.end()) return items_[static_cast<std::size_t>(found - keys_.begin())];
  keys_.emplace_back(key);
  return items_.emplace_back();
}

void Json::push_back(Json value) {
  if (kind_ == Kind::kScalar && text_ == "null") kind_ = Kind::kArray;
  require(kind_ == Kind::kArray, "an item of a JSON value that is no array");
  items_.push_back(std::move(value));
}

std::string Json::dump(int indent) const {
  std::string out;
  append(out, indent, 0);
  return out;
}

void Json::append(std::string& out, int indent, int level) const {
  if (kind_ == Kind::kScalar) {
    out += text_;
    return;
  }
  const bool object = kind_ == Kind::kObject;
  const auto new_line = [&](int depth) {
    if (indent >= 0) out += '\n' + std::string(static_cast<std::size_t>(indent * depth), ' ');
  };
  out += object ? '{' : '[';
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (i > 0) out += ',';
    new_line(level + 1);
    if (object) out += json_text(keys_[i]) + (indent >= 0 ? ": " : ":");
    items_[i].append(out, indent, level + 1);
  }
  if (!items_.empty()) new_line(level);
  out += object ? '}' : ']';
}

}  // namespace yoke::base
