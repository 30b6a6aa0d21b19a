#include "yoke/data/fashion_mnist.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "yoke/base/files.h"
#include "yoke/data/idx.h"
#include "yoke/data/resample.h"

namespace yoke::data {
namespace {

using base::input_error;

constexpr const char* kPackageFolder = "/usr/share/datasets/fashion-mnist";
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kSide = 28;
constexpr double kMean = 0.2860, kDeviation = 0.3530;

class FashionMnist final : public Dataset {
 public:
  FashionMnist(std::vector<std::uint8_t> images, std::vector<std::uint8_t> labels, std::int64_t size)
      : images_(std::move(images)),
        labels_(std::move(labels)),
        info_{.name = "fashion-mnist", .size = size, .input_shape = {1, kSide, kSide}, .classes = kClasses} {}

  const DatasetInfo& info() const override { return info_; }

  base::Result<Batch> load(std::span<const std::int64_t> indices,
                           const std::optional<base::StreamName>&) const override {
    constexpr std::size_t kPixels = kSide * kSide;
    constexpr auto kScale = static_cast<float>(1 / (255 * kDeviation));
    constexpr auto kBias = static_cast<float>(-kMean / kDeviation);
    const auto count = static_cast<std::int64_t>(indices.size());
    torch::Tensor x = torch::empty({count, 1, kSide, kSide}, torch::kFloat32);
    torch::Tensor targets = torch::empty({count}, torch::kInt64);
    auto* pixels = x.data_ptr<float>();
    auto* classes = targets.data_ptr<std::int64_t>();
    for (const std::int64_t index : indices) {
      check_index(index, info_);
      const auto i = static_cast<std::size_t>(index);
      normalise(std::span(images_).subspan(i * kPixels, kPixels), kScale, kBias, pixels);
      pixels += kPixels;
      *classes++ = labels_[i];
    }
    return Batch{.tensors = {{"x", std::move(x)}, {"targets", std::move(targets)}}, .samples = count};
  }

 private:
  std::vector<std::uint8_t> images_;
  std::vector<std::uint8_t> labels_;
  DatasetInfo info_;
};

/// Packed or not: both are in use.
base::Result<std::string> find_file(const std::string& folder, const std::string& name) {
  for (const std::string& candidate : {name + ".gz", name}) {
    const std::string path = base::join_path(folder, candidate);
    if (base::exists(path)) return path;
  }
  return input_error(fmt::format("found no Fashion-MNIST file {}.gz here; install it with `apt-get install "
                                 "dataset-fashion-mnist`, or give the folder that has it as data.path",
                                 name),
                     {.file = folder});
}

base::Result<Idx> read_idx(const std::string& path) {
  YOKE_TRY(const std::string bytes, base::read_file(path, kMaxIdxBytes));
  return parse_idx(bytes, path);
}

}  // namespace

base::Result<std::unique_ptr<Dataset>> open_fashion_mnist(const DatasetOptions& options) {
  const std::string folder = options.path.empty() ? kPackageFolder : options.path;
  const std::string prefix = options.split == Split::kTrain ? "train" : "t10k";
  YOKE_TRY(const std::string images_path, find_file(folder, prefix + "-images-idx3-ubyte"));
  YOKE_TRY(const std::string labels_path, find_file(folder, prefix + "-labels-idx1-ubyte"));
  YOKE_TRY(Idx images, read_idx(images_path));
  YOKE_TRY(Idx labels, read_idx(labels_path));
  if (images.shape.size() != 3 || images.shape[1] != kSide || images.shape[2] != kSide) {
    return input_error(
        fmt::format("found an array of {}, expected images of {} x {}", fmt::join(images.shape, " x "), kSide, kSide),
        {.file = images_path});
  }
  if (labels.shape.size() != 1) {
    return input_error(fmt::format("found {} dimensions, expected the 1 of labels", labels.shape.size()),
                       {.file = labels_path});
  }
  if (labels.shape[0] != images.shape[0]) {
    return input_error(fmt::format("found {} labels, expected {}: one for each image in {}", labels.shape[0],
                                   images.shape[0], images_path),
                       {.file = labels_path});
  }
  const auto beyond = std::find_if(labels.values.begin(), labels.values.end(), [](int c) { return c >= kClasses; });
  if (beyond != labels.values.end()) {
    return input_error(
        fmt::format("label {} is {}, expected 0 to {}", beyond - labels.values.begin(), *beyond, kClasses - 1),
        {.file = labels_path});
  }
  const std::int64_t size = std::min(images.shape[0], options.limit.value_or(images.shape[0]));
  return std::unique_ptr<Dataset>(
      std::make_unique<FashionMnist>(std::move(images.values), std::move(labels.values), size));
}

}  // namespace yoke::data
