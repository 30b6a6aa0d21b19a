#include "yoke/data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

namespace yoke::data {
namespace {

using base::input_error;

constexpr std::size_t kPool = 1 << 16;  // numbers: 256 KB stay in a cache
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;

std::vector<float> make_pool() {
  base::Stream stream({.seed = 0x796f6b65, .purpose = base::Purpose::kSimulate});
  std::vector<float> pool(kPool);
  for (std::size_t i = 0; i < pool.size(); i += 2) {
    // Two independent normal numbers from two uniform ones (Box and Muller).
    const double radius = std::sqrt(-2 * std::log(1 - stream.uniform()));
    const double angle = 2 * std::numbers::pi * stream.uniform();
    pool[i] = static_cast<float>(radius * std::cos(angle));
    pool[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return pool;
}

class Synthetic final : public Dataset {
 public:
  Synthetic(DatasetInfo info, std::int64_t elements, Split split)
      : info_(std::move(info)), elements_(static_cast<std::size_t>(elements)), split_(split), pool_(make_pool()) {}

  const DatasetInfo& info() const override { return info_; }

  base::Result<Batch> load(std::span<const std::int64_t> indices,
                           const std::optional<base::StreamName>&) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    std::vector<std::int64_t> shape{count};
    shape.insert(shape.end(), info_.input_shape.begin(), info_.input_shape.end());
    torch::Tensor x = torch::empty(shape, torch::kFloat32);
    torch::Tensor targets = torch::empty({count}, torch::kInt64);
    auto* values = x.data_ptr<float>();
    auto* classes = targets.data_ptr<std::int64_t>();
    for (const std::int64_t index : indices) {
      check_index(index, info_);
      base::Stream stream({.epoch = split_ == Split::kTrain ? 0U : 1U,
                           .step = static_cast<std::uint64_t>(index),
                           .purpose = base::Purpose::kSimulate});
      *classes++ = static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(info_.classes)));
      copy_from_pool(stream.below(kPool), values);
      values += elements_;
    }
    return Batch{.tensors = {{"x", std::move(x)}, {"targets", std::move(targets)}}, .samples = count};
  }

 private:
  void copy_from_pool(std::size_t offset, float* to) const {
    for (std::size_t left = elements_; left > 0; offset = 0) {
      const std::size_t run = std::min(left, kPool - offset);
      std::memcpy(to, pool_.data() + offset, run * sizeof(float));
      to += run;
      left -= run;
    }
  }

  DatasetInfo info_;
  std::size_t elements_;
  Split split_;
  std::vector<float> pool_;
};

}  // namespace

base::Result<std::unique_ptr<Dataset>> open_synthetic(const DatasetOptions& options) {
  if (!options.path.empty()) {
    return input_error("synthetic data has no files; leave the path out, or name another data set",
                       {.field = "data.path"});
  }
  DatasetInfo info{.name = "synthetic",
                   .size = options.limit.value_or(options.split == Split::kTrain ? 1024 : 256),
                   .input_shape = options.shape,
                   .classes = options.classes.value_or(1000)};
  if (info.input_shape.empty()) info.input_shape = {3, options.image, options.image};
  if (info.classes < 1) {
    return input_error(fmt::format("found {} classes, expected at least 1", info.classes), {.field = "data.classes"});
  }
  std::int64_t elements = 1;
  for (const std::int64_t extent : info.input_shape) {
    if (extent < 1) {
      return input_error(fmt::format("found a dimension of {}, expected at least 1", extent), {.field = "data.shape"});
    }
    if (elements > kMostElements / extent) {
      return input_error(fmt::format("found a sample of more than {} numbers", kMostElements), {.field = "data.shape"});
    }
    elements *= extent;
  }
  return std::unique_ptr<Dataset>(std::make_unique<Synthetic>(std::move(info), elements, options.split));
}

}  // namespace yoke::data
