// What every fuzz target checks: a parser answers, whatever the text. Either with a value that survives being written
// and read again, or with one input error that fits on a line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "yoke/base/error.h"
#include "yoke/base/result.h"

namespace yoke::fuzz {

inline void expect(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// What is shown to people.
inline void expect_one_line(const std::string& text) {
  for (const char c : text) expect(static_cast<unsigned char>(c) >= 0x20, "a control byte: " + text);
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// True if there is a value.
template <typename T>
bool answered(const base::Result<T>& result) {
  if (result.ok()) return true;
  const base::Error& error = result.error();
  expect(error.kind == base::ErrorKind::kInput, "not an input error: " + error.to_string());
  expect(!error.message.empty(), "an error without a message");
  expect_one_line(error.message);
  return false;
}

/// Parses the text, writes what it says, parses that and expects the same value.
template <typename Parse, typename Write>
void check_round_trip(std::string_view text, Parse parse, Write write) {
  const auto value = parse(text, std::string("input"));
  if (!answered(value)) return;
  const std::string written = write(*value);
  const auto again = parse(written, std::string("written"));
  if (!again.ok()) expect(false, "cannot read what was written: " + again.error().to_string() + "\n" + written);
  expect(*again == *value, "reads back differently:\n" + written);
}

}  // namespace yoke::fuzz
