#include "yoke/base/document_builder.h"

#include <fmt/format.h>

#include <utility>

#include "yoke/base/text.h"

namespace yoke::base {

DocumentBuilder::DocumentBuilder(std::string file) {
  document_.file = std::move(file);
}

bool DocumentBuilder::fail(std::string message, int line) {
  if (!error_) error_ = input_error(std::move(message), {.file = document_.file, .line = line});
  return false;
}

bool DocumentBuilder::in_map() const {
  return !open_.empty() && open_.back().value.kind == Value::Kind::kMap;
}

bool DocumentBuilder::expects_key() const {
  return in_map() && !open_.back().pending_key;
}

bool DocumentBuilder::open(Value::Kind kind, int line) {
  if (error_) return false;
  if (open_.size() >= kMaxDocumentDepth) {
    return fail(fmt::format("nested deeper than {} levels", kMaxDocumentDepth), line);
  }
  open_.push_back({.value = {.kind = kind, .line = line}});
  return true;
}

bool DocumentBuilder::close() {
  if (error_) return false;
  Value value = std::move(open_.back().value);
  open_.pop_back();
  return add(std::move(value));
}

bool DocumentBuilder::key(std::string name, int line) {
  if (error_) return false;
  Level& map = open_.back();
  if (!map.keys.insert(name).second) return fail(fmt::format("the key {} is given twice", quote(name)), line);
  map.pending_key = std::move(name);
  return true;
}

bool DocumentBuilder::scalar(Value::Kind kind, std::string text, int line) {
  if (error_) return false;
  return add({.kind = kind, .line = line, .text = std::move(text)});
}

bool DocumentBuilder::add(Value value) {
  if (++values_ > kMaxDocumentValues) {
    return fail(fmt::format("found more than {} values; is this the right file?", kMaxDocumentValues), value.line);
  }
  if (open_.empty()) {
    document_.root = std::move(value);
  } else if (Level& parent = open_.back(); parent.value.kind == Value::Kind::kMap) {
    parent.value.entries.push_back({*std::exchange(parent.pending_key, std::nullopt), std::move(value)});
  } else {
    parent.value.items.push_back(std::move(value));
  }
  return true;
}

Result<Document> DocumentBuilder::finish() && {
  if (error_) return *std::move(error_);
  return std::move(document_);
}

}  // namespace yoke::base
