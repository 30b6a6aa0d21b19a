// Result<T>: a value or the Error that explains why there is none. For outcomes a caller should expect: a malformed
// file, an infeasible plan, an unreachable host. Ignoring one is a compiler warning, hence an error.
//
//   Result<Cluster> read(const std::string& path) {
//     YOKE_TRY(std::string text, read_file(path));   // returns the Error to our caller if there is no text
//     ...
//     return cluster;
//   }
#pragma once

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "yoke/base/error.h"

namespace yoke::base {

template <typename T>
class [[nodiscard]] Result {
  static_assert(!std::is_same_v<T, Error>, "a Result<Error> could not tell success from failure");

 public:
  // Implicit on purpose: `return value;` and `return input_error(...);` both read as what they mean.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  /// The value. Throws Failure (a bug of the caller) when there is none.
  const T& value() const& {
    expect_value();
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    expect_value();
    return std::move(*std::get_if<0>(&state_));
  }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }

  /// The error. Throws Failure (a bug of the caller) when there is a value.
  const Error& error() const {
    require(!ok(), "Result::error() called on a success");
    return *std::get_if<1>(&state_);
  }

 private:
  void expect_value() const {
    if (!ok()) throw Failure(*std::get_if<1>(&state_));
  }

  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }

  const Error& error() const {
    require(!ok(), "Result::error() called on a success");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace yoke::base

#define YOKE_DETAIL_CONCAT2(a, b) a##b
#define YOKE_DETAIL_CONCAT(a, b) YOKE_DETAIL_CONCAT2(a, b)
#define YOKE_DETAIL_TRY(result, declaration, ...) \
  auto result = (__VA_ARGS__);                    \
  if (!result.ok()) return result.error();        \
  declaration = *std::move(result)

/// `YOKE_TRY(T x, expression);` declares x from a Result, or returns its Error from the enclosing function.
#define YOKE_TRY(declaration, ...) YOKE_DETAIL_TRY(YOKE_DETAIL_CONCAT(yoke_try_, __LINE__), declaration, __VA_ARGS__)

/// `YOKE_CHECK(expression);` for a Status: returns its Error from the enclosing function.
#define YOKE_CHECK(...)                                \
  do {                                                 \
    auto yoke_status = (__VA_ARGS__);                  \
    if (!yoke_status.ok()) return yoke_status.error(); \
  } while (false)
