#include "yoke/base/error.h"

#include <fmt/format.h>

#include <utility>

namespace yoke::base {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInput:
      return "input";
    case ErrorKind::kInfeasible:
      return "infeasible";
    case ErrorKind::kPeer:
      return "peer";
    case ErrorKind::kInternal:
      return "internal";
  }
  return "internal";
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInput:
      return 2;
    case ErrorKind::kInfeasible:
      return 3;
    case ErrorKind::kPeer:
      return 4;
    case ErrorKind::kInternal:
      return 1;
  }
  return 1;
}

std::string Where::to_string() const {
  std::string text = file;
  if (line > 0) text += fmt::format(":{}", line);
  if (!field.empty()) text += text.empty() ? field : ": " + field;
  return text;
}

std::string Error::to_string() const {
  const std::string place = where.to_string();
  return place.empty() ? message : place + ": " + message;
}

Error input_error(std::string message, Where where) {
  return {ErrorKind::kInput, std::move(message), std::move(where)};
}

Error infeasible_error(std::string message, Where where) {
  return {ErrorKind::kInfeasible, std::move(message), std::move(where)};
}

Error peer_error(std::string message, Where where) {
  return {ErrorKind::kPeer, std::move(message), std::move(where)};
}

Failure::Failure(Error error) : std::runtime_error(error.to_string()), error_(std::move(error)) {}

void require(bool holds, std::string_view message, SourceLocation at) {
  if (holds) return;
  throw Failure({ErrorKind::kInternal, std::string(message), {at.file, at.line, {}}});
}

}  // namespace yoke::base
