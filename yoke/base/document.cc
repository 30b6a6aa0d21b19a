#include "yoke/base/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "yoke/base/files.h"
#include "yoke/base/text.h"

namespace yoke::base {

std::string Value::describe() const {
  switch (kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kBool:
      return text;
    case Kind::kNumber:
      return quote(text);
    case Kind::kString:
      return "the text " + quote(text);
    case Kind::kList:
      return fmt::format("a list of {}", items.size());
    case Kind::kMap:
      return "a map";
  }
  return "nothing";
}

std::string Range::describe(std::string_view noun) const {
  const bool has_least = std::isfinite(least);
  const bool has_most = std::isfinite(most);
  if (has_least && has_most && !least_excluded && !most_excluded) {
    return fmt::format("{} from {} to {}", noun, least, most);
  }
  std::string text(noun);
  if (has_least) text += fmt::format(" {} {}", least_excluded ? ">" : ">=", least);
  if (has_most) text += fmt::format("{} {} {}", has_least ? " and" : "", most_excluded ? "<" : "<=", most);
  return text;
}

Result<Document> load_document(const std::string& path) {
  YOKE_TRY(const std::string text, read_file(path));
  return path.ends_with(".json") ? parse_json(text, path) : parse_yaml(text, path);
}

View::View(Reader* reader, const Value* value, std::string path)
    : reader_(reader), value_(value), path_(std::move(path)) {}

Where View::where() const {
  return {.file = reader_->document_.file, .line = value_ == nullptr ? 0 : value_->line, .field = path_};
}

void View::fail(std::string message) {
  reader_->report(input_error(std::move(message), where()));
}

void View::expected(std::string_view what) {
  if (value_ != nullptr) fail(fmt::format("found {}, expected {}", value_->describe(), what));
}

const Value* View::expect(Value::Kind kind, std::string_view what) {
  if (value_ == nullptr || !reader_->ok()) return nullptr;
  if (value_->kind == kind) return value_;
  expected(what);
  return nullptr;
}

std::string View::path_of(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

const Value* View::entry(const std::string& key) const {
  if (value_ == nullptr) return nullptr;
  for (const auto& [name, value] : value_->entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

View View::field(const std::string& key) {
  const Value* map = expect(Value::Kind::kMap, "a map");
  if (map == nullptr) return View(reader_, nullptr, path_of(key));
  reader_->asked_.emplace(map, key);
  const Value* found = entry(key);
  if (found == nullptr) {
    std::vector<std::string> present;
    for (const auto& [name, value] : map->entries) present.push_back(name);
    fail(fmt::format("required key `{}` is missing{}", key,
                     present.empty() ? "" : fmt::format("; found only {}", quote(join_words(present), 200))));
  }
  return View(reader_, found, path_of(key));
}

std::optional<View> View::find(const std::string& key) {
  const Value* map = expect(Value::Kind::kMap, "a map");
  if (map == nullptr) return std::nullopt;
  reader_->asked_.emplace(map, key);
  const Value* found = entry(key);
  if (found == nullptr || found->kind == Value::Kind::kNull) return std::nullopt;
  return View(reader_, found, path_of(key));
}

bool View::has(const std::string& key) const {
  return entry(key) != nullptr;
}

std::vector<std::pair<std::string, View>> View::entries() {
  std::vector<std::pair<std::string, View>> views;
  const Value* map = expect(Value::Kind::kMap, "a map");
  if (map == nullptr) return views;
  for (const auto& [key, value] : map->entries) {
    reader_->asked_.emplace(map, key);
    views.emplace_back(key, View(reader_, &value, path_of(key)));
  }
  return views;
}

std::vector<View> View::items() {
  std::vector<View> views;
  const Value* list = expect(Value::Kind::kList, "a list");
  if (list == nullptr) return views;
  views.reserve(list->items.size());
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    views.push_back(View(reader_, &list->items[i], fmt::format("{}[{}]", path_, i)));
  }
  return views;
}

std::string View::text() {
  const Value* value = expect(Value::Kind::kString, "a text");
  return value == nullptr ? "" : value->text;
}

bool View::boolean() {
  const Value* value = expect(Value::Kind::kBool, "true or false");
  return value != nullptr && value->text == "true";
}

double View::number(Range range) {
  const Value* value = expect(Value::Kind::kNumber, range.describe("a number"));
  if (value == nullptr) return 0;
  const auto number = parse_number(value->text);
  if (!number.ok() || !range.contains(*number)) {
    expected(range.describe("a number"));
    return 0;
  }
  return *number;
}

std::int64_t View::integer(Range range) {
  const Value* value = expect(Value::Kind::kNumber, range.describe("a whole number"));
  if (value == nullptr) return 0;
  const auto whole = parse_integer(value->text);
  if (!whole.ok() || !range.contains(static_cast<double>(*whole))) {
    expected(range.describe("a whole number"));
    return 0;
  }
  return *whole;
}

namespace {

bool is_scalar(const Value* value) {
  return value != nullptr && (value->kind == Value::Kind::kNumber || value->kind == Value::Kind::kString);
}

}  // namespace

Bytes View::bytes(Range range) {
  const auto parsed = parse_bytes(is_scalar(value_) ? value_->text : "");
  if (parsed.ok() && range.contains(static_cast<double>(parsed->count))) return *parsed;
  if (reader_->ok()) expected(range.describe("a size in bytes (4096, 25MB, 16GiB)"));
  return {};
}

Bandwidth View::bandwidth(Range range) {
  const auto parsed = parse_bandwidth(is_scalar(value_) ? value_->text : "");
  if (parsed.ok() && range.contains(parsed->bytes_per_s)) return *parsed;
  if (reader_->ok()) expected(range.describe("a bandwidth (15e9 bytes per second, 12.5GB/s, 10Gbit/s)"));
  return {};
}

Duration View::duration() {
  const auto parsed = parse_duration(is_scalar(value_) ? value_->text : "");
  if (parsed.ok()) return *parsed;
  if (reader_->ok()) expected("a duration (300ms, 2.5s, 5min)");
  return {};
}

std::string View::text_or(const std::string& key, std::string fallback) {
  auto view = find(key);
  return view ? view->text() : std::move(fallback);
}

bool View::boolean_or(const std::string& key, bool fallback) {
  auto view = find(key);
  return view ? view->boolean() : fallback;
}

double View::number_or(const std::string& key, double fallback, Range range) {
  auto view = find(key);
  return view ? view->number(range) : fallback;
}

std::int64_t View::integer_or(const std::string& key, std::int64_t fallback, Range range) {
  auto view = find(key);
  return view ? view->integer(range) : fallback;
}

std::size_t View::one_of(const std::vector<std::string>& names) {
  const std::string typed = text();
  const auto found = std::find(names.begin(), names.end(), typed);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  if (reader_->ok() && value_ != nullptr) {
    fail(fmt::format("found {}, expected {}{}", quote(typed), join_words(names, "or"), did_you_mean(typed, names)));
  }
  return 0;
}

std::vector<std::string> View::unread() const {
  std::vector<std::string> keys;
  if (value_ == nullptr || !reader_->ok()) return keys;
  for (const auto& [key, value] : value_->entries) {
    if (!reader_->asked_.contains({value_, key})) keys.push_back(key);
  }
  return keys;
}

void View::done() {
  const auto unknown = unread();
  if (unknown.empty()) return;
  std::vector<std::string> known;
  for (auto it = reader_->asked_.lower_bound({value_, ""}); it != reader_->asked_.end() && it->first == value_; ++it) {
    known.push_back(it->second);
  }
  const std::string hint = did_you_mean(unknown.front(), known);
  View at(reader_, entry(unknown.front()), path_);
  at.fail(fmt::format("unknown key {}{}", quote(unknown.front()),
                      hint.empty() ? fmt::format("; known are {}", join_words(known)) : hint));
}

void expect_format(View root, const std::string& name, std::int64_t version) {
  if (auto format = root.find("format")) format->one_of({name});
  if (auto found = root.find("version")) {
    const std::int64_t number = found->integer(kCount);
    if (number > version) {
      found->fail(
          fmt::format("found version {} of {}, expected at most {}; a newer yoke can read it", number, name, version));
    }
  }
}

bool View::is_map() const {
  return value_ != nullptr && value_->kind == Value::Kind::kMap;
}
bool View::is_list() const {
  return value_ != nullptr && value_->kind == Value::Kind::kList;
}
bool View::is_text() const {
  return value_ != nullptr && value_->kind == Value::Kind::kString;
}

}  // namespace yoke::base
