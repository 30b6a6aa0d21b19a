// Builds a Document from the events of a parser; shared by the JSON and YAML readers, which differ in syntax only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "yoke/base/document.h"

namespace yoke::base {

/// Every event returns false once the document is refused; the parser should stop then. One thread only.
class DocumentBuilder {
 public:
  explicit DocumentBuilder(std::string file);

  bool open(Value::Kind kind, int line);
  bool close();
  /// The name of the next entry of the innermost map.
  bool key(std::string name, int line);
  bool scalar(Value::Kind kind, std::string text, int line);
  /// Refuses the document; the first reason stays.
  bool fail(std::string message, int line);

  bool in_map() const;
  bool expects_key() const;
  Result<Document> finish() &&;

 private:
  struct Level {
    Value value;
    std::optional<std::string> pending_key;
    std::set<std::string> keys;
  };
  bool add(Value value);

  Document document_;
  std::vector<Level> open_;
  std::int64_t values_ = 0;
  std::optional<Error> error_;
};

}  // namespace yoke::base
