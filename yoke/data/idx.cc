#include "yoke/data/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>

namespace yoke::data {
namespace {

using base::input_error;

/// inflate() with its state released at the end of the scope.
class Inflater {
 public:
  Inflater() { base::require(::inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK, "zlib cannot start"); }
  ~Inflater() { ::inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

base::Result<std::vector<std::uint8_t>> gunzip(const std::string& packed, const std::string& file) {
  constexpr std::size_t kFirstChunk = 1 << 20;
  Inflater inflater;
  z_stream& stream = inflater.stream();
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));  // zlib does not write there
  stream.avail_in = static_cast<uInt>(packed.size());
  std::vector<std::uint8_t> unpacked;
  std::size_t filled = 0;
  while (true) {
    if (filled == unpacked.size()) {
      if (filled >= static_cast<std::size_t>(kMaxIdxBytes)) {
        return input_error(fmt::format("unpacks to more than {} bytes; is this the right file?", kMaxIdxBytes),
                           {.file = file});
      }
      unpacked.resize(std::max(kFirstChunk, 2 * filled));
    }
    stream.next_out = unpacked.data() + filled;
    stream.avail_out = static_cast<uInt>(unpacked.size() - filled);
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    filled = unpacked.size() - stream.avail_out;
    if (status == Z_STREAM_END) {
      // A gzip file may be several, one after another.
      if (stream.avail_in == 0) break;
      if (::inflateReset(&stream) != Z_OK) return input_error("cannot go on unpacking", {.file = file});
    } else if (status == Z_BUF_ERROR && stream.avail_in == 0) {
      return input_error(
          fmt::format("the gzip data ends too early, after {} unpacked bytes; fetch the file again", filled),
          {.file = file});
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      return input_error(fmt::format("the gzip data is damaged ({}) after {} unpacked bytes; fetch the file again",
                                     stream.msg != nullptr ? stream.msg : "no detail", filled),
                         {.file = file});
    }
  }
  unpacked.resize(filled);
  return unpacked;
}

std::uint32_t big_endian32(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

base::Result<Idx> parse_unpacked(std::vector<std::uint8_t> bytes, const std::string& file) {
  constexpr std::uint8_t kUnsignedBytes = 0x08;
  constexpr std::size_t kMostDimensions = 8;
  if (bytes.size() < 4) {
    return input_error(fmt::format("found {} bytes, expected at least the 4 of an IDX header", bytes.size()),
                       {.file = file});
  }
  if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != kUnsignedBytes || bytes[3] == 0 || bytes[3] > kMostDimensions) {
    return input_error(
        fmt::format("found the magic number 0x{:08x}, expected 0x000008NN (an IDX file of unsigned bytes "
                    "with NN = 1 to {} dimensions)",
                    big_endian32(bytes.data()), kMostDimensions),
        {.file = file});
  }
  const std::size_t dimensions = bytes[3];
  const std::size_t header = 4 + 4 * dimensions;
  if (bytes.size() < header) {
    return input_error(fmt::format("found {} bytes, expected a header of {}", bytes.size(), header), {.file = file});
  }
  Idx idx;
  std::int64_t values = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::int64_t extent = big_endian32(bytes.data() + 4 + 4 * i);
    idx.shape.push_back(extent);
    if (extent == 0) return input_error(fmt::format("dimension {} is 0, expected at least 1", i), {.file = file});
    if (values > kMaxIdxBytes / extent) {
      return input_error(fmt::format("the header asks for more than {} bytes", kMaxIdxBytes), {.file = file});
    }
    values *= extent;
  }
  const auto found = static_cast<std::int64_t>(bytes.size() - header);
  if (found != values) {
    return input_error(fmt::format("found {} values, expected {} by the header ({}); fetch the file again", found,
                                   values, fmt::join(idx.shape, " x ")),
                       {.file = file});
  }
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  idx.values = std::move(bytes);
  return idx;
}

}  // namespace

base::Result<Idx> parse_idx(const std::string& bytes, const std::string& file) {
  if (bytes.size() > static_cast<std::size_t>(kMaxIdxBytes)) {
    return input_error(fmt::format("found {} bytes, expected at most {}", bytes.size(), kMaxIdxBytes), {.file = file});
  }
  if (bytes.starts_with("\x1f\x8b")) {
    YOKE_TRY(auto unpacked, gunzip(bytes, file));
    return parse_unpacked(std::move(unpacked), file);
  }
  return parse_unpacked({bytes.begin(), bytes.end()}, file);
}

}  // namespace yoke::data
