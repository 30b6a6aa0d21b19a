// Small text helpers shared by readers and messages.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::base {

std::string_view trim(std::string_view text);

/// Splits at every occurrence of `separator`; n separators give n + 1 parts, empty ones included.
std::vector<std::string_view> split(std::string_view text, std::string_view separator);

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`, ignoring case.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate a person most likely meant by `typed`; empty when nothing is close.
std::string nearest_name(std::string_view typed, std::span<const std::string> candidates);

/// ", did you mean `model`?" or "" - made to be appended to "unknown key `modle`".
std::string did_you_mean(std::string_view typed, std::span<const std::string> candidates);

/// `a, b and c`, or with another last word; for messages that list names.
std::string join_words(std::span<const std::string> words, std::string_view last = "and");

/// Fit to name a node in files, folders and lists: not empty, at most 200 bytes of UTF-8 without blanks, control
/// characters, commas and slashes, and neither `.` nor `..`.
bool is_plain_name(std::string_view text);

/// Bytes of `text` up to the first that is not UTF-8; text.size() when all is.
std::size_t valid_utf8_prefix(std::string_view text);

/// Text from a file or a user made safe for a terminal: what is no printable UTF-8 escaped, cut at `limit` bytes of it,
/// between characters, with an ellipsis.
std::string printable(std::string_view text, std::size_t limit);

/// The same in quotes, for a message.
std::string quote(std::string_view text, std::size_t limit = 60);

}  // namespace yoke::base
