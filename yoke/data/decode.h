// Images as files hold them (JPEG, PNG) into plain pixels. Torch-free.
//
// The content decides what an image is, not the file's name. What comes out is what Python's PIL gives as "RGB": grey
// is repeated, alpha is dropped, palettes are looked up, CMYK is taken as Adobe stores it (inverted), EXIF orientation
// and gamma are not applied. 16 bits are scaled to 8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "yoke/base/result.h"

namespace yoke::data {

struct ImageSize {
  int width = 0;
  int height = 0;
  bool operator==(const ImageSize&) const = default;
};

/// Red, green, blue, a byte each; rows from the top, without gaps.
struct Pixels {
  const std::uint8_t* data = nullptr;
  ImageSize size;
  int reduction = 1;  // each pixel stands for so many of the image in each direction
};

/// Larger images are refused by their header: a small file can ask for any amount of memory.
inline constexpr std::int64_t kMaxImagePixels = 100'000'000;
inline constexpr std::int64_t kMaxImageSide = 65'535;  // as of a JPEG

/// Decodes one image after another into memory of its own. One thread at a time.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(const ImageDecoder&) = delete;
  ImageDecoder& operator=(const ImageDecoder&) = delete;

  /// Reads the header. `bytes` must stay until decode() has returned; `file` is named in errors. Input error for what
  /// is no JPEG or PNG, or too large.
  base::Result<ImageSize> open(std::string_view bytes, const std::string& file);

  /// The pixels of the image that was opened; they are valid until the next call. A JPEG is decoded smaller by
  /// `reduction` (1, 2, 4 or 8), which takes less time than to decode it whole; a PNG ignores it. Input error for
  /// damaged or truncated content, however little of the image that spoils.
  base::Result<Pixels> decode(int reduction = 1);

 private:
  class Buffer;
  base::Result<Pixels> decode_jpeg(int reduction);
  base::Result<Pixels> decode_png();
  /// After a header that broke off, libturbojpeg would take the next file for the rest of it.
  void renew_jpeg();

  void* jpeg_ = nullptr;  // tjhandle
  std::unique_ptr<Buffer> rgb_;
  std::unique_ptr<Buffer> cmyk_;
  std::string_view bytes_;
  std::string file_;
  ImageSize size_;
  bool is_jpeg_ = false;
  bool is_cmyk_ = false;
};

}  // namespace yoke::data
