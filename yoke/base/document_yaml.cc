#include <fmt/format.h>
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/emitterstyle.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>

#include "yoke/base/document.h"
#include "yoke/base/document_builder.h"
#include "yoke/base/text.h"

namespace yoke::base {
namespace {

/// Thrown through yaml-cpp to stop it once the builder has refused the document; never leaves this file.
struct Refused {};

int line_of(const YAML::Mark& mark) {
  return mark.line + 1;
}

/// YAML leaves the type of a plain scalar to its reader; these are the core-schema spellings.
Value::Kind kind_of_plain(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return Value::Kind::kNull;
  for (const auto* name : {"true", "True", "TRUE", "false", "False", "FALSE"}) {
    if (text == name) return Value::Kind::kBool;
  }
  return parse_number(text).ok() ? Value::Kind::kNumber : Value::Kind::kString;
}

class YamlEvents final : public YAML::EventHandler {
 public:
  explicit YamlEvents(DocumentBuilder* builder) : builder_(builder) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    if (builder_->expects_key()) {
      stop_unless(builder_->fail("found an empty key, expected a name", line_of(mark)));
    }
    stop_unless(builder_->scalar(Value::Kind::kNull, "", line_of(mark)));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    stop_unless(builder_->fail("found an alias (*name); write the value out instead", line_of(mark)));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    refuse_anchor(mark, anchor);
    if (builder_->expects_key()) {
      stop_unless(builder_->key(text, line_of(mark)));
      return;
    }
    const bool plain = tag == "?";  // quoted scalars carry "!"
    const Value::Kind kind = plain ? kind_of_plain(text) : Value::Kind::kString;
    const bool is_true = kind == Value::Kind::kBool && (text[0] == 't' || text[0] == 'T');
    stop_unless(
        builder_->scalar(kind, kind == Value::Kind::kBool ? (is_true ? "true" : "false") : text, line_of(mark)));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Value::Kind::kList, mark, anchor);
  }
  void OnSequenceEnd() override { stop_unless(builder_->close()); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Value::Kind::kMap, mark, anchor);
  }
  void OnMapEnd() override { stop_unless(builder_->close()); }

 private:
  static void stop_unless(bool accepted) {
    if (!accepted) throw Refused();
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) stop_unless(builder_->fail("found an anchor (&name); write the value out instead", line_of(mark)));
  }
  void open(Value::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    refuse_anchor(mark, anchor);
    if (builder_->expects_key()) {
      stop_unless(
          builder_->fail("found a list or map as a key, expected a name; is a bracket left open?", line_of(mark)));
    }
    stop_unless(builder_->open(kind, line_of(mark)));
  }

  DocumentBuilder* builder_;
};

}  // namespace

Result<Document> parse_yaml(std::string_view text, std::string file) {
  if (trim(text).empty()) return input_error("the file is empty, expected YAML", {.file = std::move(file)});
  DocumentBuilder builder(file);
  if (text.size() > kMaxYamlBytes) {
    builder.fail(fmt::format("found {} bytes of YAML, expected at most {}", text.size(), kMaxYamlBytes), 0);
    return std::move(builder).finish();
  }
  if (const auto valid = valid_utf8_prefix(text); valid < text.size()) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(valid), '\n');
    builder.fail("found a byte that is not UTF-8, expected YAML in UTF-8", static_cast<int>(line));
    return std::move(builder).finish();
  }
  YamlEvents events(&builder);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(events);
    if (parser) builder.fail("found a second document (---), expected one", 0);
  } catch (const Refused&) {
    // The builder holds the reason.
  } catch (const YAML::Exception& fault) {
    builder.fail(fmt::format("not valid YAML: {}", quote(fault.msg, 200)), line_of(fault.mark));
  }
  return std::move(builder).finish();
}

std::string yaml_text(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./- ";
  // What other readers of YAML take for something else than text.
  constexpr std::string_view kWords[] = {"true", "false", "null", "yes", "no", "on", "off", "nan", "inf", "infinity"};
  const auto same = [&](std::string_view word) { return edit_distance(text, word) == 0; };  // ignores case
  const bool plain = !text.empty() && text.size() <= 200 && text.find_first_not_of(kPlain) == std::string_view::npos &&
                     (std::isalpha(static_cast<unsigned char>(text.front())) != 0 || text.front() == '/') &&
                     text.back() != ' ' && std::none_of(std::begin(kWords), std::end(kWords), same);
  if (plain) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace yoke::base
