// JSON for writing. Reading is document.h's. A small value type of our own, because every file that writes JSON would
// otherwise compile a parser too. Keys keep the order they were added in; text that is not UTF-8 is made so.
//
//   Json json{{"gbs", 256}, {"nodes", Json::array()}};
//   json["nodes"].push_back({{"node", "a"}, {"devices", 4}});
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::base {

class Json {
 public:
  struct Member;

  /// null
  Json() = default;
  // Implicit on purpose, so that values stand in braces as they are.
  template <typename T>
  requires std::same_as<T, bool> Json(T value)
      : text_(value ? "true" : "false") {}  // NOLINT(google-explicit-constructor)
  template <std::integral T>
  requires(!std::same_as<T, bool>) Json(T value)
      : text_(std::to_string(value)) {}  // NOLINT(google-explicit-constructor)
  /// The shortest digits that read back as the same double, with a point or exponent; null when it is not finite.
  Json(double value);                                                // NOLINT(google-explicit-constructor)
  Json(std::string_view value);                                      // NOLINT(google-explicit-constructor)
  Json(const std::string& value) : Json(std::string_view(value)) {}  // NOLINT(google-explicit-constructor)
  Json(const char* value) : Json(std::string_view(value)) {}         // NOLINT(google-explicit-constructor)
  template <typename T>
  Json(const std::vector<T>& values) : kind_(Kind::kArray) {  // NOLINT(google-explicit-constructor)
    for (const auto& value : values) items_.emplace_back(value);
  }
  /// An object.
  Json(std::initializer_list<Member> members);

  static Json array();
  static Json object();

  /// Objects (null becomes one): the member of this name, added if it is not there.
  Json& operator[](std::string_view key);
  /// Arrays (null becomes one).
  void push_back(Json value);

  /// On one line, or with `indent` blanks a level.
  std::string dump(int indent = -1) const;

 private:
  enum class Kind { kScalar, kArray, kObject };
  void append(std::string& out, int indent, int level) const;

  Kind kind_ = Kind::kScalar;
  std::string text_ = "null";      // scalars, as written
  std::vector<Json> items_;        // arrays and objects
  std::vector<std::string> keys_;  // objects: the key of each item
};

struct Json::Member {
  std::string_view key;
  Json value;
};

/// A JSON string with its quotes. Bytes that are not UTF-8 become replacement characters.
std::string json_text(std::string_view text);

}  // namespace yoke::base
