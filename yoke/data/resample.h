// From the pixels of an image to the numbers a network takes: which part, how large, mirrored, normalised. Torch-free.
//
// Resizing is bilinear with antialiasing: where the image shrinks, the triangle that weighs its pixels is widened so
// that all of them count, as PIL and torchvision do. The result is not rounded to bytes on the way.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "yoke/base/rng.h"
#include "yoke/data/decode.h"

namespace yoke::data {

/// Whole pixels of an image.
struct Rectangle {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  bool operator==(const Rectangle&) const = default;
};

/// `source` of the image, resized to `resized`; of that `window` is wanted.
struct View {
  Rectangle source;
  ImageSize resized;
  Rectangle window;
  bool mirrored = false;
  bool operator==(const View&) const = default;
};

/// Training: a random part with 8% to 100% of the area and a ratio of 3:4 to 4:3, resized to `side` x `side`, mirrored
/// half of the time. Where ten tries give no part that fits, the largest centred one does.
View random_view(ImageSize image, int side, base::Stream& stream);

/// Evaluation: the shorter side resized to `resize`, then the `side` x `side` pixels in the middle.
/// Precondition: side <= resize.
View centre_view(ImageSize image, int resize, int side);

/// How much smaller (1, 2, 4 or 8) the image may be decoded so that the view still shrinks it by `margin` or more.
int reduction_for(const View& view, double margin);

/// value = byte * scale + bias, for red, green and blue.
struct Normalisation {
  std::array<float, 3> scale;
  std::array<float, 3> bias;
};

/// (byte / 255 - mean) / deviation.
constexpr Normalisation normalisation(const std::array<double, 3>& mean, const std::array<double, 3>& deviation) {
  Normalisation result{};
  for (std::size_t c = 0; c < 3; ++c) {
    result.scale[c] = static_cast<float>(1 / (255 * deviation[c]));
    result.bias[c] = static_cast<float>(-mean[c] / deviation[c]);
  }
  return result;
}

/// Writes bytes.size() numbers: those of one channel.
void normalise(std::span<const std::uint8_t> bytes, float scale, float bias, float* out);

/// Resizes one image after another, in memory that it keeps. One thread at a time.
class Resampler {
 public:
  /// Writes 3 x window.height x window.width numbers: all red, then green, then blue. `pixels` may be reduced; the view
  /// is in pixels of the whole image.
  void run(const Pixels& pixels, const View& view, const Normalisation& normalisation, float* out);

 private:
  /// How the pixels of a line are made: pixel i is the sum over t of weights[i * taps + t] * source[first[i] + t].
  struct Line {
    std::vector<int> first;
    std::vector<float> weights;
    int taps = 0;
    void set(double begin, double end, int source_extent, int resized_extent, int window_begin, int window_extent);
  };

  Line across_;
  Line down_;
  std::vector<float> row_;
};

}  // namespace yoke::data
