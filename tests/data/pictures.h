// Pictures made up on the spot, as pixels and as files: tests and benchmarks of decoding need no data set.
#pragma once

#include <png.h>
#include <turbojpeg.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "yoke/base/rng.h"

namespace yoke::testing {

/// `channels` bytes for each pixel, rows from the top.
struct Picture {
  int width = 0;
  int height = 0;
  int channels = 3;
  std::vector<std::uint8_t> bytes;

  std::uint8_t at(int x, int y, int channel) const {
    return bytes[static_cast<std::size_t>((y * width + x) * channels + channel)];
  }
};

/// Gradients and stripes with a little noise: smooth and sharp parts, as photos have them.
inline Picture make_picture(int width, int height, int channels = 3, std::uint64_t seed = 1, unsigned noise = 12) {
  Picture picture{width, height, channels, {}};
  base::Stream stream({.seed = seed});
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const int slope = c == 0 ? x * 180 / width : c == 1 ? y * 180 / height : (x + y) * 180 / (width + height);
        const int stripe = ((x + static_cast<int>(seed % 1000) * 7) / (11 + 8 * c) + y / 23) % 2 * 50;
        const int speck = noise == 0 ? 0 : static_cast<int>(stream.bits32() % noise);
        picture.bytes.push_back(static_cast<std::uint8_t>(slope + stripe + speck));
      }
    }
  }
  return picture;
}

/// Channels: 1 grey, 3 colours, 4 CMYK as Adobe stores it.
inline std::string to_jpeg(const Picture& picture, int quality = 90, int subsampling = TJSAMP_420, int flags = 0) {
  const tjhandle handle = ::tjInitCompress();
  unsigned char* file = nullptr;
  unsigned long size = 0;
  const int format = picture.channels == 1 ? TJPF_GRAY : picture.channels == 4 ? TJPF_CMYK : TJPF_RGB;
  const int status = ::tjCompress2(handle, picture.bytes.data(), picture.width, 0, picture.height, format, &file, &size,
                                   picture.channels == 1 ? TJSAMP_GRAY : subsampling, quality, flags);
  std::string bytes(reinterpret_cast<const char*>(file), status == 0 ? size : 0);
  ::tjFree(file);
  ::tjDestroy(handle);
  return bytes;
}

/// `pixels` in the `format` of libpng (PNG_FORMAT_...), with a palette where the format has one.
inline std::string to_png(int width, int height, png_uint_32 format, const void* pixels, const void* palette = nullptr,
                          png_uint_32 colours = 0) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  image.colormap_entries = colours;
  png_alloc_size_t size = 0;
  if (::png_image_write_to_memory(&image, nullptr, &size, 0, pixels, 0, palette) == 0) return "";
  std::string bytes(size, '\0');
  if (::png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels, 0, palette) == 0) return "";
  bytes.resize(size);
  return bytes;
}

inline std::string to_png(const Picture& picture) {
  const png_uint_32 formats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
  return to_png(picture.width, picture.height, formats[picture.channels - 1], picture.bytes.data());
}

}  // namespace yoke::testing
