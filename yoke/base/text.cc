#include "yoke/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace yoke::base {
namespace {

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

/// Bytes of the first character of `text`, which is not empty; 0 when it is not UTF-8.
std::size_t utf8_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF show in the second byte.
  const unsigned char second = byte(1);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) || (lead == 0xf0 && second < 0x90) ||
      (lead == 0xf4 && second > 0x8f)) {
    return 0;
  }
  return length;
}

/// False for a character that would move the cursor, turn the direction of writing or not be seen in a terminal.
bool is_printable(std::string_view character) {
  if (character.size() == 1) return character[0] >= 0x20 && character[0] < 0x7f;
  const bool control = character < "\u00a0";
  const bool zero_width_or_line = character >= "\u200b" && character <= "\u200f";
  const bool direction = character >= "\u2028" && character <= "\u202e";
  const bool invisible = character >= "\u2060" && character <= "\u206f";
  return !control && !zero_width_or_line && !direction && !invisible && character != "\ufeff";
}

}  // namespace

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\f\v";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (auto at = text.find(separator); at != std::string_view::npos; at = text.find(separator)) {
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the optimal-string-alignment table: two back, one back, current.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string nearest_name(std::string_view typed, std::span<const std::string> candidates) {
  if (typed.size() > 100) return {};  // not a typing slip, and the distance is quadratic
  std::string best;
  // A slip changes about one letter in three; more is another word.
  std::size_t best_distance = std::max<std::size_t>(1, typed.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const auto distance = edit_distance(typed, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view typed, std::span<const std::string> candidates) {
  const std::string nearest = nearest_name(typed, candidates);
  return nearest.empty() ? "" : fmt::format(", did you mean {}?", quote(nearest));
}

std::string join_words(std::span<const std::string> words, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? fmt::format(" {} ", last) : ", ";
    text += words[i];
  }
  return text;
}

bool is_plain_name(std::string_view text) {
  const auto forbidden = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte == 0x7f || c == ',' || c == '/';
  };
  return !text.empty() && text.size() <= 200 && text != "." && text != ".." &&
         std::none_of(text.begin(), text.end(), forbidden) && valid_utf8_prefix(text) == text.size();
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_character(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return at;
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string safe;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_character(text.substr(at));
    if (at + std::max<std::size_t>(length, 1) > limit) return safe + "...";
    const std::string_view character = text.substr(at, std::max<std::size_t>(length, 1));
    if (length > 0 && is_printable(character)) {
      safe += character;
    } else {
      for (const char c : character) safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    at += character.size();
  }
  return safe;
}

std::string quote(std::string_view text, std::size_t limit) {
  return "`" + printable(text, limit) + "`";
}

}  // namespace yoke::base
