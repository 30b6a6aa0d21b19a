// JSON and YAML read into one tree that remembers the line of every value, and a reader over it whose every message
// names file, line and field. The reader keeps the first fault and goes on with harmless defaults, so reading code is
// straight and asks once at the end:
//
//   Reader reader(document);
//   View root = reader.root();
//   node.name = root.field("name").text();
//   node.speed = root.number_or("speed", 1.0, kPositive);
//   root.done();                                   // unknown keys: "unknown key `sped`, did you mean `speed`?"
//   if (!reader.ok()) return reader.error();
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yoke/base/result.h"
#include "yoke/base/units.h"

namespace yoke::base {

/// One value of a document. Scalars keep their text as written, so that integers and units lose nothing.
struct Value {
  struct Entry;
  enum class Kind { kNull, kBool, kNumber, kString, kList, kMap };

  Kind kind = Kind::kNull;
  int line = 0;
  std::string text;            // scalars
  std::vector<Value> items;    // lists
  std::vector<Entry> entries;  // maps, in the order written; keys are unique

  /// `a map`, `the number 12`, `the text "x"`: for messages.
  std::string describe() const;
};

struct Value::Entry {
  std::string key;
  Value value;
};

struct Document {
  std::string file;
  Value root;
};

/// Nesting beyond this is no file of ours; it is refused so that no input can exhaust the stack.
inline constexpr int kMaxDocumentDepth = 64;
/// More values than this are no file of ours either; a value takes about 100 bytes of memory.
inline constexpr std::int64_t kMaxDocumentValues = 2'000'000;
/// YAML is for files that people write, and slow to read: a megabyte takes most of a second.
inline constexpr std::size_t kMaxYamlBytes = 8 * 1024 * 1024;

/// `file` is only for messages. Input errors name the line; duplicate keys are errors.
Result<Document> parse_json(std::string_view text, std::string file);
/// One YAML document in UTF-8. Anchors and aliases are refused: no format of ours needs them.
Result<Document> parse_yaml(std::string_view text, std::string file);
/// Reads a file; `.json` is JSON, anything else YAML (of which JSON is nearly a subset).
Result<Document> load_document(const std::string& path);

/// A YAML scalar that parse_yaml reads back as exactly this text: plain where that is safe, quoted otherwise.
std::string yaml_text(std::string_view text);

/// The allowed values of a number, and how to say so.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool least_excluded = false;
  bool most_excluded = false;

  bool contains(double value) const {
    return (least_excluded ? value > least : value >= least) && (most_excluded ? value < most : value <= most);
  }
  /// `a number > 0`, `a number from 0 to 1`.
  std::string describe(std::string_view noun) const;
};
inline constexpr Range kAny{};
inline constexpr Range kPositive{.least = 0, .least_excluded = true};
inline constexpr Range kNotNegative{.least = 0};
/// What a count of things may be: 1 up to 10^9.
inline constexpr Range kCount{.least = 1, .most = 1e9};

class Reader;

/// A place in a document. Cheap to copy; valid as long as its Reader and Document. After the reader's first fault (or
/// for a missing field) a view is void: every read returns a default and reports nothing more. One thread only.
class View {
 public:
  /// Maps: a required field; an optional one (nullopt when absent or null).
  View field(const std::string& key);
  std::optional<View> find(const std::string& key);
  bool has(const std::string& key) const;
  /// Maps: all entries, in the order written; marks every key as known.
  std::vector<std::pair<std::string, View>> entries();
  /// Lists: all items.
  std::vector<View> items();

  std::string text();
  bool boolean();
  double number(Range range = kAny);
  std::int64_t integer(Range range = kAny);
  Bytes bytes(Range range = kNotNegative);
  Bandwidth bandwidth(Range range = kNotNegative);
  Duration duration();

  std::string text_or(const std::string& key, std::string fallback);
  bool boolean_or(const std::string& key, bool fallback);
  double number_or(const std::string& key, double fallback, Range range = kAny);
  std::int64_t integer_or(const std::string& key, std::int64_t fallback, Range range = kAny);

  /// The text must be one of `names`; returns its index, so that strings become enums at the edge.
  std::size_t one_of(const std::vector<std::string>& names);

  /// Maps: reports the first key that nothing asked for, with the nearest key that something did.
  void done();
  /// Maps: the keys that nothing asked for; for importers, which say what they ignored.
  std::vector<std::string> unread() const;

  bool is_map() const;
  bool is_list() const;
  bool is_text() const;

  /// Reports a fault at this place.
  void fail(std::string message);
  Where where() const;

 private:
  friend class Reader;
  View(Reader* reader, const Value* value, std::string path);
  const Value* expect(Value::Kind kind, std::string_view expected);
  void expected(std::string_view what);
  std::string path_of(const std::string& key) const;
  const Value* entry(const std::string& key) const;

  Reader* reader_;
  const Value* value_;  // null: void
  std::string path_;
};

/// The head of a versioned file: `format` must be `name` and `version` a whole number up to `version`; both may be
/// absent, so that files written by hand are short.
void expect_format(View root, const std::string& name, std::int64_t version);

/// Owns the first fault found in one document and the keys that were asked for. One thread only.
class Reader {
 public:
  /// `document` must outlive the reader and its views.
  explicit Reader(const Document& document) : document_(document) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  View root() { return View(this, &document_.root, ""); }
  bool ok() const { return !error_.has_value(); }
  const Error& error() const { return *error_; }

 private:
  friend class View;
  void report(Error error) {
    if (ok()) error_ = std::move(error);
  }

  const Document& document_;
  std::optional<Error> error_;
  std::set<std::pair<const Value*, std::string>> asked_;
};

}  // namespace yoke::base
