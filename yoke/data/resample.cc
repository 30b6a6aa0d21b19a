#include "yoke/data/resample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "yoke/base/error.h"

namespace yoke::data {
namespace {

/// Four numbers that one instruction works on.
using Four = float __attribute__((vector_size(16)));

Four load(const float* from) {
  Four four;
  std::memcpy(&four, from, sizeof(four));
  return four;
}

Rectangle centred(ImageSize image, int width, int height) {
  return {(image.width - width) / 2, (image.height - height) / 2, width, height};
}

Rectangle random_part(ImageSize image, base::Stream& stream) {
  constexpr int kTries = 10;
  constexpr double kLeastArea = 0.08;
  constexpr double kLeastRatio = 3.0 / 4, kMostRatio = 4.0 / 3;
  const double area = static_cast<double>(image.width) * image.height;
  const auto between = [&](double least, double most) { return least + (most - least) * stream.uniform(); };
  const auto offset = [&](int room) { return static_cast<int>(stream.below(static_cast<std::uint64_t>(room) + 1)); };
  for (int i = 0; i < kTries; ++i) {
    const double part = area * between(kLeastArea, 1);
    const double ratio = std::exp(between(std::log(kLeastRatio), std::log(kMostRatio)));
    const auto width = static_cast<int>(std::lround(std::sqrt(part * ratio)));
    const auto height = static_cast<int>(std::lround(std::sqrt(part / ratio)));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    const int x = offset(image.width - width);
    const int y = offset(image.height - height);
    return {x, y, width, height};
  }
  const double ratio = static_cast<double>(image.width) / image.height;
  if (ratio < kLeastRatio) return centred(image, image.width, static_cast<int>(std::lround(image.width / kLeastRatio)));
  if (ratio > kMostRatio) return centred(image, static_cast<int>(std::lround(image.height * kMostRatio)), image.height);
  return {0, 0, image.width, image.height};
}

/// row = weight * bytes, or row += weight * bytes.
void weigh(const std::uint8_t* bytes, float weight, bool add, float* __restrict row, std::size_t count) {
  if (add) {
    for (std::size_t i = 0; i < count; ++i) row[i] += weight * static_cast<float>(bytes[i]);
  } else {
    for (std::size_t i = 0; i < count; ++i) row[i] = weight * static_cast<float>(bytes[i]);
  }
}

}  // namespace

View random_view(ImageSize image, int side, base::Stream& stream) {
  View view{.source = random_part(image, stream), .resized = {side, side}, .window = {0, 0, side, side}};
  view.mirrored = stream.uniform() < 0.5;
  return view;
}

View centre_view(ImageSize image, int resize, int side) {
  base::require(side <= resize, fmt::format("{} pixels out of the middle of {}", side, resize));
  const bool wide = image.width > image.height;
  const std::int64_t shorter = wide ? image.height : image.width;
  const std::int64_t longer = wide ? image.width : image.height;
  const auto stretched = static_cast<int>(resize * longer / shorter);
  const ImageSize resized = wide ? ImageSize{stretched, resize} : ImageSize{resize, stretched};
  // Halves go to the even neighbour: that is where Python's round() and hence torchvision's crop has them.
  const auto margin = [&](int extent) { return static_cast<int>(std::nearbyint((extent - side) / 2.0)); };
  return {.source = {0, 0, image.width, image.height},
          .resized = resized,
          .window = {margin(resized.width), margin(resized.height), side, side}};
}

int reduction_for(const View& view, double margin) {
  const double shrinks = std::min(static_cast<double>(view.source.width) / view.resized.width,
                                  static_cast<double>(view.source.height) / view.resized.height);
  for (const int reduction : {8, 4, 2}) {
    if (shrinks >= reduction * margin) return reduction;
  }
  return 1;
}

void normalise(std::span<const std::uint8_t> bytes, float scale, float bias, float* __restrict out) {
  for (std::size_t i = 0; i < bytes.size(); ++i) out[i] = static_cast<float>(bytes[i]) * scale + bias;
}

void Resampler::Line::set(double begin, double end, int source_extent, int resized_extent, int window_begin,
                          int window_extent) {
  const double step = (end - begin) / resized_extent;
  const double reach = std::max(step, 1.0);
  const int least = static_cast<int>(std::floor(begin));
  const int most = std::min(source_extent, static_cast<int>(std::ceil(end)));
  taps = std::min(static_cast<int>(std::ceil(2 * reach)) + 1, most - least);
  first.resize(static_cast<std::size_t>(window_extent));
  weights.resize(first.size() * static_cast<std::size_t>(taps));
  for (int i = 0; i < window_extent; ++i) {
    const double centre = begin + (window_begin + i + 0.5) * step;
    const int start = std::clamp(static_cast<int>(std::floor(centre - reach + 0.5)), least, most - taps);
    first[static_cast<std::size_t>(i)] = start;
    float* line = weights.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(taps);
    double sum = 0;
    const auto weight = [&](int tap) { return std::max(0.0, 1 - std::abs(start + tap + 0.5 - centre) / reach); };
    for (int tap = 0; tap < taps; ++tap) sum += weight(tap);
    for (int tap = 0; tap < taps; ++tap) line[tap] = static_cast<float>(weight(tap) / sum);
  }
}

void Resampler::run(const Pixels& pixels, const View& view, const Normalisation& normalisation, float* out) {
  const double scale = 1.0 / pixels.reduction;
  const Rectangle& source = view.source;
  const Rectangle& window = view.window;
  across_.set(source.x * scale, (source.x + source.width) * scale, pixels.size.width, view.resized.width, window.x,
              window.width);
  down_.set(source.y * scale, (source.y + source.height) * scale, pixels.size.height, view.resized.height, window.y,
            window.height);

  // Only these columns of the image are used.
  const int left = across_.first.front();
  const int right = across_.first.back() + across_.taps;
  const auto columns = 3 * static_cast<std::size_t>(right - left);
  const std::size_t row_bytes = 3 * static_cast<std::size_t>(pixels.size.width);
  row_.resize(columns + 1);  // the last pixel is loaded as four numbers
  row_.back() = 0;

  const auto plane = static_cast<std::ptrdiff_t>(window.width) * window.height;
  const Four scales{normalisation.scale[0], normalisation.scale[1], normalisation.scale[2], 0};
  const Four biases{normalisation.bias[0], normalisation.bias[1], normalisation.bias[2], 0};
  const std::ptrdiff_t stride = view.mirrored ? -1 : 1;
  for (int y = 0; y < window.height; ++y) {
    const float* weights = down_.weights.data() + static_cast<std::ptrdiff_t>(y) * down_.taps;
    const std::uint8_t* bytes = pixels.data +
                                static_cast<std::size_t>(down_.first[static_cast<std::size_t>(y)]) * row_bytes +
                                3 * static_cast<std::size_t>(left);
    bool add = false;
    for (int tap = 0; tap < down_.taps; ++tap, bytes += row_bytes) {
      if (weights[tap] == 0) continue;
      weigh(bytes, weights[tap], add, row_.data(), columns);
      add = true;
    }

    float* to = out + static_cast<std::ptrdiff_t>(y) * window.width + (view.mirrored ? window.width - 1 : 0);
    const float* weight = across_.weights.data();
    for (const int first : across_.first) {
      const float* from = row_.data() + 3 * static_cast<std::ptrdiff_t>(first - left);
      Four sum{};
      for (int tap = 0; tap < across_.taps; ++tap) sum += load(from + 3 * tap) * weight[tap];
      sum = sum * scales + biases;
      to[0] = sum[0];
      to[plane] = sum[1];
      to[2 * plane] = sum[2];
      to += stride;
      weight += across_.taps;
    }
  }
}

}  // namespace yoke::data
