#include "yoke/data/decode.h"

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "yoke/base/text.h"

namespace yoke::data {
namespace {

using base::input_error;

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kJpegSignature = "\xff\xd8\xff";
constexpr std::size_t kMessageLimit = 200;

base::Error damaged(const char* format, std::string_view detail, const std::string& file) {
  return input_error(fmt::format("cannot decode this {}: {}", format, base::quote(detail, kMessageLimit)),
                     {.file = file});
}

base::Result<ImageSize> checked(std::int64_t width, std::int64_t height, const std::string& file) {
  if (width < 1 || height < 1) {
    return input_error(fmt::format("found an image of {} x {} pixels, expected at least 1 x 1", width, height),
                       {.file = file});
  }
  if (width > kMaxImageSide || height > kMaxImageSide || width * height > kMaxImagePixels) {
    return input_error(
        fmt::format("found an image of {} x {} pixels, expected at most {} in each direction and {} million in all; "
                    "shrink it",
                    width, height, kMaxImageSide, kMaxImagePixels / 1'000'000),
        {.file = file});
  }
  return ImageSize{static_cast<int>(width), static_cast<int>(height)};
}

std::int64_t big_endian32(std::string_view bytes) {
  std::int64_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

base::Result<ImageSize> read_png_size(std::string_view bytes, const std::string& file) {
  constexpr std::size_t kHeaderEnd = 24;  // signature, length and name of the first chunk, width, height
  if (bytes.size() < kHeaderEnd || bytes.substr(12, 4) != "IHDR") return damaged("PNG", "it has no header", file);
  return checked(big_endian32(bytes.substr(16)), big_endian32(bytes.substr(20)), file);
}

/// libjpeg warns of stray bytes between segments, which harm nothing; its other warnings mean that pixels are lost.
bool is_harmless(std::string_view warning) {
  return warning.find("extraneous bytes") != std::string_view::npos;
}

/// What libpng reads from, and what it said when it gave up.
struct PngSource {
  std::string_view left;
  char message[128] = "";
};

void read_png_bytes(png_structp png, png_bytep to, std::size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source->left.size()) png_error(png, "the file ends too early");
  std::memcpy(to, source->left.data(), count);
  source->left.remove_prefix(count);
}

[[noreturn]] void fail_png(png_structp png, png_const_charp message) {
  auto* source = static_cast<PngSource*>(png_get_error_ptr(png));
  std::strncpy(source->message, message, sizeof(source->message) - 1);
  png_longjmp(png, 1);
}

void ignore_png_warning(png_structp, png_const_charp) {}

/// libpng jumps out of here when it fails, so nothing in here may need a destructor.
bool read_png_rows(png_structp png, png_infop header, std::span<png_bytep> rows, std::size_t row_bytes) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_info(png, header);
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, header);
  if (png_get_image_height(png, header) != rows.size() || png_get_rowbytes(png, header) != row_bytes) {
    png_error(png, "it has two headers");
  }
  png_read_image(png, rows.data());
  png_read_end(png, nullptr);
  return true;
}

}  // namespace

/// Memory that grows as needed and is never cleared.
class ImageDecoder::Buffer {
 public:
  std::uint8_t* at_least(std::size_t bytes) {
    if (bytes > capacity_) {
      memory_.reset();
      capacity_ = 0;
      memory_ = std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
      capacity_ = bytes;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<std::uint8_t[]> memory_;
  std::size_t capacity_ = 0;
};

ImageDecoder::ImageDecoder()
    : jpeg_(::tjInitDecompress()), rgb_(std::make_unique<Buffer>()), cmyk_(std::make_unique<Buffer>()) {
  if (jpeg_ == nullptr) throw std::bad_alloc();
}

ImageDecoder::~ImageDecoder() {
  ::tjDestroy(jpeg_);
}

void ImageDecoder::renew_jpeg() {
  const tjhandle fresh = ::tjInitDecompress();
  if (fresh == nullptr) throw std::bad_alloc();
  ::tjDestroy(jpeg_);
  jpeg_ = fresh;
}

base::Result<ImageSize> ImageDecoder::open(std::string_view bytes, const std::string& file) {
  bytes_ = {};
  file_ = file;
  is_jpeg_ = bytes.starts_with(kJpegSignature);
  if (is_jpeg_) {
    int width = 0, height = 0, subsampling = -1, colours = -1;
    const int status = ::tjDecompressHeader3(jpeg_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                                             &width, &height, &subsampling, &colours);
    // It also fails for sampling factors that have no name, after it has read all that matters to us.
    if (width < 1 || height < 1 || colours < 0) {
      base::Error error = damaged("JPEG", status != 0 ? ::tjGetErrorStr2(jpeg_) : "it has no image", file);
      renew_jpeg();
      return error;
    }
    is_cmyk_ = colours == TJCS_CMYK || colours == TJCS_YCCK;
    YOKE_TRY(size_, checked(width, height, file));
  } else if (bytes.starts_with(kPngSignature)) {
    YOKE_TRY(size_, read_png_size(bytes, file));
  } else {
    return input_error(fmt::format("found {} bytes that begin with {}, expected a JPEG or PNG image", bytes.size(),
                                   base::quote(bytes.substr(0, 8))),
                       {.file = file});
  }
  bytes_ = bytes;
  return size_;
}

base::Result<Pixels> ImageDecoder::decode(int reduction) {
  base::require(!bytes_.empty(), "ImageDecoder::decode() without an image that was opened");
  base::require(reduction == 1 || reduction == 2 || reduction == 4 || reduction == 8,
                fmt::format("an image reduced by {}: expected 1, 2, 4 or 8", reduction));
  return is_jpeg_ ? decode_jpeg(reduction) : decode_png();
}

base::Result<Pixels> ImageDecoder::decode_jpeg(int reduction) {
  const auto reduced = [&](int extent) { return (extent + reduction - 1) / reduction; };
  const ImageSize size{reduced(size_.width), reduced(size_.height)};
  const std::size_t pixels = static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height);
  std::uint8_t* rgb = rgb_->at_least(3 * pixels);
  std::uint8_t* target = is_cmyk_ ? cmyk_->at_least(4 * pixels) : rgb;
  const int status =
      ::tjDecompress2(jpeg_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size(), target, size.width,
                      0, size.height, is_cmyk_ ? TJPF_CMYK : TJPF_RGB, TJFLAG_LIMITSCANS);
  if (status != 0) {
    const std::string_view message = ::tjGetErrorStr2(jpeg_);
    if (::tjGetErrorCode(jpeg_) != TJERR_WARNING || !is_harmless(message)) return damaged("JPEG", message, file_);
  }
  if (is_cmyk_) {
    // Inverted: 255 is no ink, so the product of a colour and of black is the light that is left.
    for (std::size_t i = 0; i < pixels; ++i) {
      const int black = target[4 * i + 3];
      for (std::size_t c = 0; c < 3; ++c) {
        rgb[3 * i + c] = static_cast<std::uint8_t>((target[4 * i + c] * black + 127) / 255);
      }
    }
  }
  return Pixels{rgb, size, reduction};
}

base::Result<Pixels> ImageDecoder::decode_png() {
  const auto height = static_cast<std::size_t>(size_.height);
  const std::size_t row_bytes = 3 * static_cast<std::size_t>(size_.width);
  std::uint8_t* rgb = rgb_->at_least(row_bytes * height);
  std::vector<png_bytep> rows(height);
  for (std::size_t y = 0; y < height; ++y) rows[y] = rgb + y * row_bytes;

  PngSource source{.left = bytes_};
  png_structp png = ::png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, fail_png, ignore_png_warning);
  png_infop header = png == nullptr ? nullptr : ::png_create_info_struct(png);
  if (header == nullptr) {
    ::png_destroy_read_struct(&png, nullptr, nullptr);
    throw std::bad_alloc();
  }
  ::png_set_read_fn(png, &source, read_png_bytes);
  ::png_set_user_limits(png, static_cast<png_uint_32>(size_.width), static_cast<png_uint_32>(size_.height));
  const bool read = read_png_rows(png, header, rows, row_bytes);
  ::png_destroy_read_struct(&png, &header, nullptr);
  if (!read) return damaged("PNG", source.message, file_);
  return Pixels{rgb, size_, 1};
}

}  // namespace yoke::data
