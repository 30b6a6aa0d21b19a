// Quantities with their unit in the type. Text such as `25MB`, `10Gbit/s`, `15e9` or `300ms` is parsed once, at the
// edge; inside there are only these types. Decimal prefixes mean powers of 1000 (kB, MB, GB, TB), binary ones powers
// of 1024 (KiB, MiB, GiB, TiB), as in IEC 80000-13. A number without a unit counts in the base unit.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "yoke/base/clock.h"
#include "yoke/base/result.h"

namespace yoke::base {

struct Bytes {
  std::int64_t count = 0;
  auto operator<=>(const Bytes&) const = default;
};

struct Bandwidth {
  double bytes_per_s = 0;
  auto operator<=>(const Bandwidth&) const = default;
};

/// `4096`, `25MB`, `16GiB`, `1.5e9`. Not negative, at most 2^63-1, fractions of a byte rounded to nearest.
Result<Bytes> parse_bytes(std::string_view text);
/// `15e9` (bytes per second), `12.5GB/s`, `10Gbit/s`, `100Mbps`. Not negative, finite.
Result<Bandwidth> parse_bandwidth(std::string_view text);
/// `300ms`, `2.5s`, `10us`, `5min`, `2h`, `1d`, `0.25` (seconds). Not negative, at most 292 years.
Result<Duration> parse_duration(std::string_view text);
/// A finite decimal number and nothing else.
Result<double> parse_number(std::string_view text);
/// A whole number and nothing else; also written as `1e6` when that is whole.
Result<std::int64_t> parse_integer(std::string_view text);

/// For people: `25.0 MB`, `16.9 GB`, `512 B`.
std::string format(Bytes bytes);
/// For people: `12.5 GB/s`.
std::string format(Bandwidth bandwidth);
/// For people: `1.83 s`, `12.4 ms`, `3.1 us`, `2h 05m`.
std::string format_seconds(double seconds);
/// For files: the shortest text that parses back to the same double.
std::string exact(double value);

}  // namespace yoke::base
