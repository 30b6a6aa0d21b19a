#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/data/pictures.h"
#include "tests/support/files.h"
#include "yoke/data/decode.h"
#include "yoke/data/resample.h"

namespace yoke::data {
namespace {

using ::yoke::testing::expect_input_error;
using ::yoke::testing::make_picture;
using ::yoke::testing::Picture;
using ::yoke::testing::to_jpeg;
using ::yoke::testing::to_png;

base::Result<Picture> decode(const std::string& bytes, int reduction = 1) {
  ImageDecoder decoder;
  YOKE_TRY(const ImageSize size, decoder.open(bytes, "image.jpg"));
  YOKE_TRY(const Pixels pixels, decoder.decode(reduction));
  EXPECT_EQ(pixels.size.width, (size.width + pixels.reduction - 1) / pixels.reduction);
  const auto count = static_cast<std::size_t>(3 * pixels.size.width * pixels.size.height);
  return Picture{pixels.size.width, pixels.size.height, 3, {pixels.data, pixels.data + count}};
}

/// The mean over all bytes of how far the pictures differ.
double mean_difference(const Picture& a, const Picture& b) {
  EXPECT_EQ(a.bytes.size(), b.bytes.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.bytes.size(); ++i) sum += std::abs(a.bytes[i] - b.bytes[i]);
  return sum / static_cast<double>(a.bytes.size());
}

Picture as_rgb(const Picture& grey, int skip_after = 0) {
  Picture rgb{grey.width, grey.height, 3, {}};
  for (std::size_t i = 0; i < grey.bytes.size(); i += 1 + static_cast<std::size_t>(skip_after)) {
    rgb.bytes.insert(rgb.bytes.end(), 3, grey.bytes[i]);
  }
  return rgb;
}

TEST(Decode, JpegAsLibturbojpegDoes) {
  const std::string file = to_jpeg(make_picture(123, 77));
  std::vector<std::uint8_t> expected(123 * 77 * 3);
  const tjhandle handle = ::tjInitDecompress();
  ::tjDecompress2(handle, reinterpret_cast<const unsigned char*>(file.data()), file.size(), expected.data(), 123, 0, 77,
                  TJPF_RGB, 0);
  ::tjDestroy(handle);
  EXPECT_EQ(decode(file).value().bytes, expected);
}

TEST(Decode, ADamagedJpegDoesNotSpoilTheNext) {
  const std::string good = to_jpeg(make_picture(40, 30));
  const auto expected = decode(good).value().bytes;
  for (std::size_t cut = 2; cut < good.size(); cut += 37) {
    ImageDecoder decoder;
    const std::string damaged = good.substr(0, cut);
    const auto opened = decoder.open(damaged, "damaged.jpg");
    EXPECT_FALSE(opened.ok() && decoder.decode().ok()) << cut;
    ASSERT_TRUE(decoder.open(good, "good.jpg").ok()) << cut;
    const auto pixels = decoder.decode();
    ASSERT_TRUE(pixels.ok()) << cut << pixels.error().to_string();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), pixels->data)) << cut;
  }
}

TEST(Decode, JpegOfEveryKind) {
  const Picture picture = make_picture(200, 150, 3, 1, 0);
  for (const int subsampling : {TJSAMP_444, TJSAMP_422, TJSAMP_420, TJSAMP_440, TJSAMP_411}) {
    for (const int flags : {0, TJFLAG_PROGRESSIVE}) {
      const auto decoded = decode(to_jpeg(picture, 95, subsampling, flags));
      EXPECT_LT(mean_difference(decoded.value(), picture), 9) << subsampling << ", " << flags;
    }
  }
  const Picture grey = make_picture(200, 150, 1, 1, 0);
  EXPECT_LT(mean_difference(decode(to_jpeg(grey, 95)).value(), as_rgb(grey)), 3);
}

TEST(Decode, CmykAsAdobeStoresIt) {
  // Light that is left = colour x black, where 255 is no ink.
  const Picture cmyk = make_picture(64, 48, 4, 1, 0);
  Picture expected{64, 48, 3, {}};
  for (std::size_t i = 0; i < cmyk.bytes.size(); i += 4) {
    for (std::size_t c = 0; c < 3; ++c) {
      expected.bytes.push_back(static_cast<std::uint8_t>(cmyk.bytes[i + c] * cmyk.bytes[i + 3] / 255));
    }
  }
  EXPECT_LT(mean_difference(decode(to_jpeg(cmyk, 98, TJSAMP_444)).value(), expected), 4);
}

TEST(Decode, JpegReduced) {
  const Picture picture = make_picture(201, 150, 3, 1, 0);
  const std::string file = to_jpeg(picture, 95);
  for (const int reduction : {2, 4, 8}) {
    const Picture small = decode(file, reduction).value();
    EXPECT_EQ(small.width, (201 + reduction - 1) / reduction);
    EXPECT_EQ(small.height, (150 + reduction - 1) / reduction);
    // Each pixel is about the mean of those it stands for.
    double sum = 0;
    int count = 0;
    for (int y = 0; y < 150 / reduction; ++y) {
      for (int x = 0; x < 201 / reduction; ++x, ++count) {
        double mean = 0;
        for (int i = 0; i < reduction * reduction; ++i) {
          mean += picture.at(x * reduction + i % reduction, y * reduction + i / reduction, 1);
        }
        sum += std::abs(mean / (reduction * reduction) - small.at(x, y, 1));
      }
    }
    EXPECT_LT(sum / count, 5) << reduction;
  }
}

TEST(Decode, PngOfEveryKind) {
  const Picture rgb = make_picture(37, 29);
  EXPECT_EQ(decode(to_png(rgb)).value().bytes, rgb.bytes);
  EXPECT_EQ(decode(to_png(rgb), 4).value().bytes, rgb.bytes) << "a PNG cannot be decoded smaller";

  const Picture grey = make_picture(37, 29, 1);
  EXPECT_EQ(decode(to_png(grey)).value().bytes, as_rgb(grey).bytes);
  const Picture grey_alpha = make_picture(37, 29, 2);
  EXPECT_EQ(decode(to_png(grey_alpha)).value().bytes, as_rgb(grey_alpha, 1).bytes);

  const Picture rgba = make_picture(37, 29, 4);
  std::vector<std::uint8_t> without_alpha;
  for (std::size_t i = 0; i < rgba.bytes.size(); ++i) {
    if (i % 4 != 3) without_alpha.push_back(rgba.bytes[i]);
  }
  EXPECT_EQ(decode(to_png(rgba)).value().bytes, without_alpha);
}

TEST(Decode, PngWithAPaletteThatHasTransparency) {
  const std::uint8_t palette[] = {10, 20, 30, 255, 200, 100, 50, 128, 7, 8, 9, 0};
  const std::uint8_t indices[] = {0, 1, 2, 2, 1, 0};
  const std::string file = to_png(3, 2, PNG_FORMAT_RGBA_COLORMAP, indices, palette, 3);
  EXPECT_THAT(decode(file).value().bytes,
              ::testing::ElementsAre(10, 20, 30, 200, 100, 50, 7, 8, 9, 7, 8, 9, 200, 100, 50, 10, 20, 30));
}

/// Rows of samples as they are, `depth` bits each, one channel.
std::string interlaced_png(int width, int height, int depth, const std::vector<std::vector<std::uint8_t>>& rows) {
  std::string file;
  png_structp png = ::png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop header = ::png_create_info_struct(png);
  const auto append = [](png_structp to, png_bytep bytes, std::size_t count) {
    static_cast<std::string*>(::png_get_io_ptr(to))->append(reinterpret_cast<const char*>(bytes), count);
  };
  ::png_set_write_fn(png, &file, append, nullptr);
  ::png_set_IHDR(png, header, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), depth,
                 PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_ADAM7, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  ::png_write_info(png, header);
  std::vector<png_bytep> pointers;
  for (const auto& row : rows) pointers.push_back(const_cast<png_bytep>(row.data()));
  ::png_write_image(png, pointers.data());
  ::png_write_end(png, nullptr);
  ::png_destroy_write_struct(&png, &header);
  return file;
}

TEST(Decode, PngOfOtherDepthsInterlaced) {
  // 16 bits are scaled to 8, not cut: 0x00ff is nearly 1.
  const Picture wide = decode(interlaced_png(3, 1, 16, {{0x00, 0xff, 0x7f, 0xff, 0xff, 0xff}})).value();
  EXPECT_THAT(wide.bytes, ::testing::ElementsAre(1, 1, 1, 127, 127, 127, 255, 255, 255));
  const Picture two_bits = decode(interlaced_png(4, 2, 2, {{0b00'01'10'11}, {0b11'10'01'00}})).value();
  EXPECT_EQ(two_bits.bytes, as_rgb({4, 2, 1, {0, 85, 170, 255, 255, 170, 85, 0}}).bytes);
}

TEST(Decode, WhatIsNoImageIsNamed) {
  expect_input_error(decode(""), "image.jpg: found 0 bytes that begin with ``, expected a JPEG or PNG image");
  expect_input_error(decode("GIF89a...."), "begin with `GIF89a..`");
  expect_input_error(decode("\xff\xd8\xff\xe0"), "image.jpg: cannot decode this JPEG: `it has no image`");
  expect_input_error(decode("\x89PNG\r\n\x1a\n"), "image.jpg: cannot decode this PNG: `it has no header`");
}

TEST(Decode, WhatIsTruncatedOrDamagedIsNamed) {
  const Picture picture = make_picture(160, 120);
  for (const bool jpeg : {true, false}) {
    const std::string file = jpeg ? to_jpeg(picture) : to_png(picture);
    for (const double part : {0.1, 0.5, 0.9, 0.99}) {
      const std::string cut = file.substr(0, static_cast<std::size_t>(part * static_cast<double>(file.size())));
      expect_input_error(decode(cut),
                         jpeg ? "image.jpg: cannot decode this JPEG" : "image.jpg: cannot decode this PNG");
    }
  }
  std::string flipped = to_png(picture);
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 0x10);
  expect_input_error(decode(flipped), "cannot decode this PNG");
}

TEST(Decode, StrayBytesInAJpegHarmNothing) {
  const std::string file = to_jpeg(make_picture(160, 120));
  const std::string padded =
      file.substr(0, file.size() - 2) + std::string("\x11\x22", 2) + file.substr(file.size() - 2);
  EXPECT_EQ(decode(padded).value().bytes, decode(file).value().bytes);
  EXPECT_EQ(decode(file + std::string(100, '\0')).value().bytes, decode(file).value().bytes);
}

TEST(Decode, DamageNeverDoesMoreThanFail) {
  std::mt19937 random(3);
  for (const std::string& file :
       {to_jpeg(make_picture(40, 30)), to_jpeg(make_picture(40, 30), 90, 0, TJFLAG_PROGRESSIVE),
        to_png(make_picture(40, 30)), to_jpeg(make_picture(40, 30, 4))}) {
    int failed = 0;
    for (int i = 0; i < 300; ++i) {
      std::string damaged = file;
      for (int flips = 0; flips < 3; ++flips)
        damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
      const auto decoded = decode(damaged, 1 << random() % 4);
      if (decoded.ok()) continue;
      ++failed;
      ASSERT_EQ(decoded.error().kind, base::ErrorKind::kInput) << decoded.error().to_string();
      ASSERT_EQ(decoded.error().where.file, "image.jpg");
    }
    EXPECT_GT(failed, 0);
  }
}

TEST(Decode, RefusesImagesThatWouldFillTheMemory) {
  std::string png = to_png(make_picture(8, 8));
  png.replace(16, 8, std::string("\0\0\x27\x11\0\0\x27\x11", 8));  // 10001 x 10001
  expect_input_error(decode(png), "image.jpg: found an image of 10001 x 10001 pixels, expected at most 65535");
  png.replace(16, 8, std::string("\0\1\0\0\0\0\0\1", 8));
  expect_input_error(decode(png), "found an image of 65536 x 1 pixels");
  png.replace(16, 8, std::string("\0\0\0\0\0\0\0\1", 8));
  expect_input_error(decode(png), "found an image of 0 x 1 pixels");
  std::string jpeg = to_jpeg(make_picture(8, 8));
  const std::size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  expect_input_error(decode(jpeg), "found an image of 65500 x 65500 pixels");
}

constexpr Normalisation kBytes = {{1, 1, 1}, {0, 0, 0}};

std::vector<float> resample(const Picture& picture, const View& view, const Normalisation& numbers = kBytes) {
  std::vector<float> out(static_cast<std::size_t>(3 * view.window.width * view.window.height), -1000);
  Resampler resampler;
  resampler.run({picture.bytes.data(), {picture.width, picture.height}, 1}, view, numbers, out.data());
  return out;
}

/// By the definition, pixel by pixel: a triangle as wide as the shrinking, over the pixels of the source.
double weighted(const Picture& picture, const View& view, int x, int y, int channel) {
  const double step_x = static_cast<double>(view.source.width) / view.resized.width;
  const double step_y = static_cast<double>(view.source.height) / view.resized.height;
  const auto weight = [](double distance, double step) {
    return std::max(0.0, 1 - std::abs(distance) / std::max(step, 1.0));
  };
  const double centre_x = view.source.x + (view.window.x + x + 0.5) * step_x;
  const double centre_y = view.source.y + (view.window.y + y + 0.5) * step_y;
  double sum = 0, weights = 0;
  for (int j = view.source.y; j < view.source.y + view.source.height; ++j) {
    for (int i = view.source.x; i < view.source.x + view.source.width; ++i) {
      const double w = weight(i + 0.5 - centre_x, step_x) * weight(j + 0.5 - centre_y, step_y);
      sum += w * picture.at(i, j, channel);
      weights += w;
    }
  }
  return sum / weights;
}

TEST(Resample, WhatIsNotResizedIsNormalisedOnly) {
  const Picture picture = make_picture(20, 10);
  const Normalisation numbers = normalisation({0.5, 0.25, 0}, {0.5, 1, 2});
  const auto out = resample(picture, {{0, 0, 20, 10}, {20, 10}, {3, 2, 5, 4}}, numbers);
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 5; ++x) {
      const auto at = [&](int c) { return out[static_cast<std::size_t>((c * 4 + y) * 5 + x)]; };
      EXPECT_NEAR(at(0), (picture.at(x + 3, y + 2, 0) / 255.0 - 0.5) / 0.5, 1e-5);
      EXPECT_NEAR(at(1), picture.at(x + 3, y + 2, 1) / 255.0 - 0.25, 1e-5);
      EXPECT_NEAR(at(2), picture.at(x + 3, y + 2, 2) / 255.0 / 2, 1e-5);
    }
  }
}

TEST(Resample, EqualsTheDefinition) {
  std::mt19937 random(4);
  const auto uniform = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  for (int i = 0; i < 60; ++i) {
    const Picture picture = make_picture(uniform(1, 40), uniform(1, 40), 3, random(), 60);
    View view;
    view.source.width = uniform(1, picture.width);
    view.source.height = uniform(1, picture.height);
    view.source.x = uniform(0, picture.width - view.source.width);
    view.source.y = uniform(0, picture.height - view.source.height);
    view.resized = {uniform(1, 30), uniform(1, 30)};
    view.window.width = uniform(1, view.resized.width);
    view.window.height = uniform(1, view.resized.height);
    view.window.x = uniform(0, view.resized.width - view.window.width);
    view.window.y = uniform(0, view.resized.height - view.window.height);
    view.mirrored = uniform(0, 1) == 1;
    const auto out = resample(picture, view);
    for (int c = 0; c < 3; ++c) {
      for (int y = 0; y < view.window.height; ++y) {
        for (int x = 0; x < view.window.width; ++x) {
          const int to = view.mirrored ? view.window.width - 1 - x : x;
          const float found = out[static_cast<std::size_t>((c * view.window.height + y) * view.window.width + to)];
          ASSERT_NEAR(found, weighted(picture, view, x, y, c), 1e-3) << i << ": " << x << ", " << y << ", " << c;
        }
      }
    }
  }
}

TEST(Resample, OfAReducedImageIsNearlyThatOfTheWhole) {
  const Picture picture = make_picture(803, 601, 3, 1, 0);
  const std::string file = to_jpeg(picture, 95, TJSAMP_444);
  const View view{{100, 51, 500, 450}, {100, 100}, {10, 10, 80, 80}};
  std::vector<std::vector<float>> results;
  for (const int reduction : {1, 2, 4}) {
    ImageDecoder decoder;
    ASSERT_TRUE(decoder.open(file, "x").ok());
    const Pixels pixels = decoder.decode(reduction).value();
    results.emplace_back(3 * 80 * 80);
    Resampler().run(pixels, view, kBytes, results.back().data());
  }
  for (const std::size_t reduced : {1U, 2U}) {
    double sum = 0;
    for (std::size_t i = 0; i < results[0].size(); ++i) sum += std::abs(results[0][i] - results[reduced][i]);
    // Of 255; a shift by one pixel of the whole image would give more than 4.
    EXPECT_LT(sum / static_cast<double>(results[0].size()), 2.5) << reduced;
  }
}

TEST(Views, TheMiddleByHand) {
  EXPECT_EQ(centre_view({500, 375}, 256, 224), (View{{0, 0, 500, 375}, {341, 256}, {58, 16, 224, 224}}));
  EXPECT_EQ(centre_view({375, 500}, 256, 224), (View{{0, 0, 375, 500}, {256, 341}, {16, 58, 224, 224}}));
  EXPECT_EQ(centre_view({30, 30}, 256, 224), (View{{0, 0, 30, 30}, {256, 256}, {16, 16, 224, 224}}));
  EXPECT_EQ(centre_view({1, 65'535}, 8192, 1).resized, (ImageSize{8192, 536'862'720}));
}

TEST(Views, RandomPartsAreWithinTheirBounds) {
  base::Stream stream({.seed = 2});
  double area = 0, mirrored = 0;
  const int count = 4000;
  for (int i = 0; i < count; ++i) {
    const View view = random_view({500, 375}, 224, stream);
    const Rectangle& part = view.source;
    ASSERT_TRUE(part.x >= 0 && part.y >= 0 && part.x + part.width <= 500 && part.y + part.height <= 375);
    const double fraction = part.width * part.height / (500.0 * 375);
    ASSERT_GE(fraction, 0.079);
    const double ratio = static_cast<double>(part.width) / part.height;
    ASSERT_GT(ratio, 0.74);
    ASSERT_LT(ratio, 1.35);
    ASSERT_EQ(view.resized, (ImageSize{224, 224}));
    area += fraction;
    mirrored += view.mirrored ? 1 : 0;
  }
  EXPECT_NEAR(mirrored / count, 0.5, 0.04);
  // What torchvision's RandomResizedCrop gives, too: the largest parts fit less often, so it is not the mean of 8%
  // and 1.
  EXPECT_NEAR(area / count, 0.436, 0.02);
}

TEST(Views, WhereNothingFitsTheLargestInTheMiddle) {
  base::Stream stream({.seed = 2});
  EXPECT_EQ(random_view({10, 1000}, 8, stream).source, (Rectangle{0, 493, 10, 13}));
  EXPECT_EQ(random_view({1000, 10}, 8, stream).source, (Rectangle{493, 0, 13, 10}));
}

TEST(Views, ReducedAsFarAsTheMarginAllows) {
  const auto shrunk = [](int source, int to) { return View{{0, 0, source, 2 * source}, {to, to}, {0, 0, to, to}}; };
  EXPECT_EQ(reduction_for(shrunk(447, 224), 1), 1);
  EXPECT_EQ(reduction_for(shrunk(448, 224), 1), 2);
  EXPECT_EQ(reduction_for(shrunk(448, 224), 2), 1);
  EXPECT_EQ(reduction_for(shrunk(896, 224), 2), 2);
  EXPECT_EQ(reduction_for(shrunk(5000, 224), 1), 8);
}

}  // namespace
}  // namespace yoke::data
