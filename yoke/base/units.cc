#include "yoke/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

#include "yoke/base/text.h"

namespace yoke::base {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 14> kByteUnits{{{"B", 1},
                                           {"kB", 1e3},
                                           {"KB", 1e3},
                                           {"MB", 1e6},
                                           {"GB", 1e9},
                                           {"TB", 1e12},
                                           {"KiB", 1024.0},
                                           {"MiB", 1048576.0},
                                           {"GiB", 1073741824.0},
                                           {"TiB", 1099511627776.0},
                                           {"k", 1e3},
                                           {"M", 1e6},
                                           {"G", 1e9},
                                           {"T", 1e12}}};
constexpr std::array<Unit, 18> kBandwidthUnits{{{"B/s", 1},
                                                {"kB/s", 1e3},
                                                {"KB/s", 1e3},
                                                {"MB/s", 1e6},
                                                {"GB/s", 1e9},
                                                {"TB/s", 1e12},
                                                {"KiB/s", 1024.0},
                                                {"MiB/s", 1048576.0},
                                                {"GiB/s", 1073741824.0},
                                                {"bit/s", 0.125},
                                                {"kbit/s", 125},
                                                {"Mbit/s", 125e3},
                                                {"Gbit/s", 125e6},
                                                {"Tbit/s", 125e9},
                                                {"bps", 0.125},
                                                {"kbps", 125},
                                                {"Mbps", 125e3},
                                                {"Gbps", 125e6}}};
constexpr std::array<Unit, 7> kDurationUnits{
    {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}}};

struct Split {
  double number = 0;
  std::string_view rest;
};

/// The leading number of `text`. from_chars does not depend on the locale and refuses `+5` and ` 5`.
std::optional<Split> split_number(std::string_view text) {
  Split split;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), split.number);
  if (status != std::errc() || !std::isfinite(split.number)) return std::nullopt;
  split.rest = trim(text.substr(static_cast<std::size_t>(end - text.data())));
  return split;
}

Result<double> parse_quantity(std::string_view text, std::span<const Unit> units, std::string_view expected) {
  const auto split = split_number(trim(text));
  if (!split) return input_error(fmt::format("found {}, expected {}", quote(text), expected));
  const double* factor = nullptr;
  std::vector<std::string> names;
  for (const auto& unit : units) {
    names.emplace_back(unit.name);
    if (unit.name == split->rest) factor = &unit.factor;
  }
  if (factor == nullptr && !split->rest.empty()) {
    return input_error(fmt::format("found {}, whose unit {} is not known{} (expected {})", quote(text),
                                   quote(split->rest), did_you_mean(split->rest, names), expected));
  }
  const double value = split->number * (factor == nullptr ? 1 : *factor);
  if (!(value >= 0) || !std::isfinite(value)) {
    return input_error(fmt::format("found {}, expected {} that is not negative and finite", quote(text), expected));
  }
  return value;
}

std::string scaled(double value, std::string_view suffix) {
  constexpr std::array<std::string_view, 6> kPrefixes{"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  while (value >= 999.95 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  return prefix == 0 ? fmt::format("{:.0f} {}", value, suffix)
                     : fmt::format("{:.1f} {}{}", value, kPrefixes[prefix], suffix);
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  // A plain count keeps every digit; a double holds only 53 bits.
  if (const auto whole = parse_integer(text); whole.ok() && *whole >= 0) return Bytes{*whole};
  YOKE_TRY(const double value, parse_quantity(text, kByteUnits, "a size in bytes such as 4096, 25MB or 16GiB"));
  if (value >= 9.2e18) return input_error(fmt::format("found {}, expected at most 8 EiB", quote(text)));
  return Bytes{std::llround(value)};
}

Result<Bandwidth> parse_bandwidth(std::string_view text) {
  YOKE_TRY(const double value,
           parse_quantity(text, kBandwidthUnits, "a bandwidth such as 15e9 (bytes per second), 12.5GB/s or 10Gbit/s"));
  return Bandwidth{value};
}

Result<Duration> parse_duration(std::string_view text) {
  YOKE_TRY(const double value, parse_quantity(text, kDurationUnits, "a duration such as 300ms, 2.5s or 5min"));
  if (value > 9.2e9) return input_error(fmt::format("found {}, expected at most 292 years", quote(text)));
  return from_seconds(value);
}

Result<double> parse_number(std::string_view text) {
  const auto split = split_number(trim(text));
  if (!split || !split->rest.empty()) return input_error(fmt::format("found {}, expected a number", quote(text)));
  return split->number;
}

Result<std::int64_t> parse_integer(std::string_view text) {
  const std::string_view digits = trim(text);
  std::int64_t whole = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
  if (status == std::errc() && end == digits.data() + digits.size() && !digits.empty()) return whole;
  // 2^53: beyond it a double such as 1e17 no longer names one whole number.
  const auto split = split_number(digits);
  const bool is_whole = split && split->rest.empty() && std::trunc(split->number) == split->number &&
                        std::abs(split->number) <= 9007199254740992.0;
  if (!is_whole) return input_error(fmt::format("found {}, expected a whole number", quote(text)));
  return static_cast<std::int64_t>(split->number);
}

std::string format(Bytes bytes) {
  return scaled(static_cast<double>(bytes.count), "B");
}

std::string format(Bandwidth bandwidth) {
  return scaled(bandwidth.bytes_per_s, "B/s");
}

std::string format_seconds(double seconds) {
  const double magnitude = std::abs(seconds);
  if (!std::isfinite(seconds)) return "forever";
  if (magnitude == 0) return "0 s";
  if (magnitude >= 1e9) return fmt::format("{:.1e} s", seconds);
  if (magnitude < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (magnitude < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (magnitude < 60) return fmt::format("{:.2f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (magnitude < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
}

std::string exact(double value) {
  return fmt::format("{}", value);
}

}  // namespace yoke::base
