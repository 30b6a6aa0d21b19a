#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "yoke/base/document.h"
#include "yoke/base/document_builder.h"
#include "yoke/base/text.h"

namespace yoke::base {
namespace {

/// Feeds nlohmann's parser and counts lines. At an event the parser has read at most one character past the token, so
/// the line of the last character that is not white space is the line of the token.
struct LineCounter {
  int line = 1;
  int token_line = 1;

  void consumed(char c) {
    if (c == '\n') {
      ++line;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      token_line = line;
    }
  }
};

class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, LineCounter* counter) : at_(at), counter_(counter) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    counter_->consumed(*at_++);
    return *this;
  }
  CountingIterator operator++(int) {
    auto old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  LineCounter* counter_;
};

/// Receives nlohmann's events and builds our tree. Returning false stops the parser.
class JsonEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonEvents(DocumentBuilder* builder, const LineCounter* counter) : builder_(builder), counter_(counter) {}

  bool null() override { return scalar(Value::Kind::kNull, "null"); }
  bool boolean(bool value) override { return scalar(Value::Kind::kBool, value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return scalar(Value::Kind::kNumber, std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(Value::Kind::kNumber, std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return scalar(Value::Kind::kNumber, text); }
  bool string(string_t& value) override { return scalar(Value::Kind::kString, std::move(value)); }
  bool binary(binary_t&) override { return false; }  // never in text JSON
  bool start_object(std::size_t) override { return builder_->open(Value::Kind::kMap, counter_->token_line); }
  bool key(string_t& name) override { return builder_->key(std::move(name), counter_->token_line); }
  bool end_object() override { return builder_->close(); }
  bool start_array(std::size_t) override { return builder_->open(Value::Kind::kList, counter_->token_line); }
  bool end_array() override { return builder_->close(); }

  bool parse_error(std::size_t, const std::string& token, const nlohmann::detail::exception& fault) override {
    // nlohmann's text is "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ...":
    // what follows the position is for people.
    std::string_view what = fault.what();
    if (const auto at = what.find(": "); at != std::string_view::npos) what.remove_prefix(at + 2);
    const bool out_of_range = fault.id == 406;
    builder_->fail(out_of_range
                       ? fmt::format("the number {} is too large, expected one that fits a double", quote(token))
                       : fmt::format("not valid JSON: {}", quote(what, 200)),
                   counter_->line);
    return false;
  }

 private:
  bool scalar(Value::Kind kind, std::string text) {
    return builder_->scalar(kind, std::move(text), counter_->token_line);
  }

  DocumentBuilder* builder_;
  const LineCounter* counter_;
};

}  // namespace

Result<Document> parse_json(std::string_view text, std::string file) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte-order mark some editors write
  if (trim(text).empty()) return input_error("the file is empty, expected JSON", {.file = std::move(file)});
  LineCounter counter;
  DocumentBuilder builder(file);
  JsonEvents events(&builder, &counter);
  nlohmann::json::sax_parse(CountingIterator(text.data(), &counter),
                            CountingIterator(text.data() + text.size(), &counter), &events);
  return std::move(builder).finish();
}

}  // namespace yoke::base
