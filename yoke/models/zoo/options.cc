#include <fmt/format.h>

#include "yoke/base/text.h"
#include "yoke/models/zoo/zoo.h"

namespace yoke::models::zoo {

namespace {

// Far beyond any real task: such a number is a slip, and would only fail later, when memory runs out.
constexpr std::int64_t kMostClasses = 10'000'000;
constexpr std::int64_t kLongestSide = 1 << 16;

}  // namespace

base::Status check_options(std::string_view model, const ModelOptions& options, Dropout dropout) {
  if (options.classes < 1 || options.classes > kMostClasses) {
    return base::input_error(
        fmt::format("found {} classes, expected 1 to {} for model `{}`", options.classes, kMostClasses, model),
        {.field = "classes"});
  }
  if (!options.path.empty()) {
    return base::input_error(fmt::format("found the path {} for model `{}`, which reads no file: leave it out, or use "
                                         "model `torchscript`",
                                         base::quote(options.path), model),
                             {.field = "path"});
  }
  if (options.dropout == -1) return {};
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    return base::input_error(fmt::format("found a dropout of {}, expected 0 or more and less than 1", options.dropout),
                             {.field = "dropout"});
  }
  if (dropout == Dropout::kNone && options.dropout > 0) {
    return base::input_error(
        fmt::format("found a dropout of {}, but model `{}` has no dropout: leave it out", options.dropout, model),
        {.field = "dropout"});
  }
  return {};
}

base::Result<Image> image_of(std::string_view model, const ModelOptions& options, const Image& own,
                             std::int64_t least_side) {
  const auto& shape = options.input_shape;
  if (shape.empty()) return own;
  const auto fits = [&](std::int64_t side) { return side >= least_side && side <= kLongestSide; };
  if (shape.size() != 3 || shape[0] < 1 || shape[0] > kLongestSide || !fits(shape[1]) || !fits(shape[2])) {
    return base::input_error(
        fmt::format("found samples of shape [{}], expected [channels, height, width] with height and width of {} to {} "
                    "for model `{}`",
                    fmt::join(shape, ", "), least_side, kLongestSide, model),
        {.field = "input_shape"});
  }
  return Image{.channels = shape[0], .height = shape[1], .width = shape[2]};
}

}  // namespace yoke::models::zoo
